// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <utility>

#include "protocol/base/failure.hpp"
#include "protocol/core/core_options.hpp"

namespace holdfast::protocol {

/// The keys of a mutex set below its prefix. It refers to the options and to the session's id, so it is not kept.
struct set_keys {
  const core_options& options;
  const std::string& session;

  std::string of_session() const { return options.prefix + ".sessions/" + session; }
  std::string of_guard() const { return options.prefix + ".writes/" + session; }
  std::string of(const std::string& name) const { return options.prefix + name; }
  failure failed(error_code code, std::string text) const { return failed(options, code, std::move(text)); }
  static failure failed(const core_options& options, error_code code, std::string text) {
    return {code, {std::move(text), options.prefix, {}, {}}};
  }
};

}  // namespace holdfast::protocol
