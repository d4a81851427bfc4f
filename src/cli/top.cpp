// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/top.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <holdfast/holdfast.hpp>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/status.hpp"
#include "cli/terminal.hpp"

namespace holdfast::cli {

namespace {

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto redraw_interval = 1s;       // ages grow, also when nothing changes
constexpr auto shortest_interval = 200ms;  // between two reads, if stdout is no terminal
constexpr auto rate_window = 60s;

// Counts grants by their fencing tokens, as far as they are seen.
class rates {
public:
  void saw(const semaphore_status& now, clock::time_point at) {
    std::map<std::string, fencing_token> tokens;
    for (const contender_status& each : now.holders) {
      const auto before = tokens_.find(each.session);
      if (has_begun_ && (before == tokens_.end() || before->second != each.token)) grants_.push_back(at);
      tokens.emplace(each.session, each.token);
    }
    tokens_ = std::move(tokens);
    if (!std::exchange(has_begun_, true)) since_ = at;
    while (!grants_.empty() && grants_.front() < at - rate_window) grants_.pop_front();
  }
  double per_minute(clock::time_point at) const {
    const auto passed = std::max<clock::duration>(std::min<clock::duration>(at - since_, rate_window), 1s);
    return static_cast<double>(grants_.size()) * 60.0 / std::chrono::duration<double>(passed).count();
  }

private:
  bool has_begun_ = false;
  clock::time_point since_{};
  std::map<std::string, fencing_token> tokens_;
  std::deque<clock::time_point> grants_;
};

class screen {
public:
  screen() : is_terminal_(is_terminal_stdout()), has_color_(is_terminal_ && std::getenv("NO_COLOR") == nullptr) {
    if (is_terminal_) write("\x1b[?1049h\x1b[?25l");  // the other screen, without a cursor
  }
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;
  ~screen() {
    if (is_terminal_) write("\x1b[?25h\x1b[?1049l");
  }
  bool is_terminal() const { return is_terminal_; }

  void draw(const std::string& prefix, const semaphore_status& now, double per_minute) {
    char rate[32];
    std::snprintf(rate, sizeof rate, "%.1f", per_minute);
    std::vector<std::pair<const char*, std::string>> lines;  // a color and a text
    std::string head = prefix + ": ";
    head += !now.exists ? "there is no lock"
                        : std::to_string(now.holders.size()) + " of " + std::to_string(now.limit) + " held, " +
                              std::to_string(now.queue.size()) + " waiting, " + rate + " grants a minute" +
                              (now.closed ? ", closed" : "");
    if (!is_terminal_) {
      std::printf("%s\n", printable(head).c_str());
      std::fflush(stdout);
      return;
    }
    lines.emplace_back("1", head);
    const window_size size = size_of_window();
    const std::size_t rows = size.rows - 1;
    std::size_t left_out = 0;
    for (const auto* const list : {&now.holders, &now.queue})
      for (const contender_status& each : *list) {
        if (lines.size() == rows) {
          ++left_out;
          continue;
        }
        const bool is_gone = maker_of(each.session) == maker_state::gone;
        std::string state = each.place == 0 ? "holds" : "waits " + std::to_string(each.place);
        state.resize(std::max<std::size_t>(state.size(), 10), ' ');
        std::string age = each.age ? shown(*each.age) : "-";
        age.resize(std::max<std::size_t>(age.size(), 6), ' ');
        std::string note = is_gone ? "gone  " : each.revoked ? "revoked  " : "";
        std::string line = state;
        line.append(age).append(each.session, 0, 8).append("  ").append(note).append(each.description);
        lines.emplace_back(is_gone ? "31" : each.place == 0 ? "32" : "0", std::move(line));
      }
    if (now.dead_holders + now.dead_entries != 0)
      lines.emplace_back("33", "left by dead sessions: " + std::to_string(now.dead_holders) + " holders, " +
                                   std::to_string(now.dead_entries) + " entries");
    if (left_out != 0 || lines.size() > rows) {
      left_out += lines.size() - (rows - 1);
      lines.resize(rows - 1);
      lines.emplace_back("0", "and " + std::to_string(left_out) + " more");
    }
    std::string text = "\x1b[H";
    for (const auto& [color, line] : lines) {
      std::string cut = printable(line);
      if (cut.size() > size.columns) {
        cut.resize(size.columns);
        while (!cut.empty() && (static_cast<unsigned char>(cut.back()) & 0xc0) == 0x80) cut.pop_back();
        if (!cut.empty() && (static_cast<unsigned char>(cut.back()) & 0x80) != 0) cut.pop_back();
      }
      text += has_color_ ? "\x1b[" + std::string(color) + "m" + cut + "\x1b[0m" : cut;
      text += "\x1b[K\r\n";
    }
    write(text + "\x1b[J");
  }

private:
  static void write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  const bool is_terminal_, has_color_;
};

// Ages do not count: they always change.
bool is_other(const semaphore_status& a, const semaphore_status& b) {
  const auto are_same = [](const contender_status& one, const contender_status& other) {
    return one.session == other.session && one.token == other.token && one.revoked == other.revoked;
  };
  const auto differ = [&](const auto& some, const auto& others) {
    return !std::equal(some.begin(), some.end(), others.begin(), others.end(), are_same);
  };
  return a.limit != b.limit || a.closed != b.closed || differ(a.holders, b.holders) || differ(a.queue, b.queue);
}

}  // namespace

asio::awaitable<void> top(consul::client& consul, std::string prefix) {
  const auto executor = co_await asio::this_coro::executor;
  constexpr auto as_tuple = asio::as_tuple(asio::use_awaitable);
  screen shown_on;
  rates seen;
  asio::signal_set interrupts(executor, SIGINT, SIGTERM, SIGHUP);
  // The handler of a signal may run after this coroutine has ended by an exception.
  struct shared_state {
    explicit shared_state(const asio::any_io_executor& executor) : pause(executor) {}
    asio::steady_timer pause;
    consul::client* reads_by = nullptr;  // while the coroutine waits for an answer
    bool is_over = false;
  };
  const auto state = std::make_shared<shared_state>(executor);
  interrupts.async_wait([state](const error_code& ec, int) {
    if (ec) return;
    state->is_over = true;
    state->pause.cancel();
    if (state->reads_by) state->reads_by->close();
  });
  std::optional<semaphore_status> last;
  while (!state->is_over) {
    semaphore_status now;
    std::exception_ptr failure;
    state->reads_by = &consul;
    try {
      now = co_await read_status(consul, prefix);
    } catch (...) {
      failure = std::current_exception();
    }
    state->reads_by = nullptr;
    if (state->is_over) break;
    if (failure) {
      interrupts.cancel();
      std::rethrow_exception(failure);
    }
    const auto at = clock::now();
    seen.saw(now, at);
    if (shown_on.is_terminal() || !last || is_other(*last, now)) shown_on.draw(prefix, now, seen.per_minute(at));
    last = std::move(now);
    state->pause.expires_after(shown_on.is_terminal() ? std::chrono::milliseconds(redraw_interval) : shortest_interval);
    co_await state->pause.async_wait(as_tuple);
  }
  interrupts.cancel();
}

}  // namespace holdfast::cli
