// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>

#include "party.hpp"
#include "support/agent.hpp"

namespace holdfast::bench {

inline std::string text(double value, int digits = 3) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, value);
  return buffer;
}

inline void say(const std::string& line) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  std::cout << line << std::endl;
}

inline void row(const std::string& scene, int ttl, const std::string& figure, const std::string& remark = {}) {
  say("| " + scene + " | " + test::consul_programs_version().to_text() + " | " + std::to_string(ttl) + " s | " +
      figure + " | " + remark + " |");
}

inline void progress(const std::string& line) { std::fprintf(stderr, "  %s\n", line.c_str()); }

template <class Condition>
bool wait_until(clock::time_point end, clock::duration every, Condition holds) {
  while (!holds()) {
    if (clock::now() >= end) return false;
    std::this_thread::sleep_for(every);
  }
  return true;
}

}  // namespace holdfast::bench
