// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <boost/system/errc.hpp>
#include <exception>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error_with_diagnostics.hpp>
#include <new>

namespace holdfast {

std::string diagnostics::to_string() const {
  std::string line = message;
  if (!key.empty()) line += " (key \"" + key + "\")";
  if (limit_conflict) {
    line += " (limit recorded " + std::to_string(limit_conflict->recorded) + ", ours " +
            std::to_string(limit_conflict->ours) + ")";
  }
  if (queue && !queue->holders.empty()) {
    const queue_report::holder& first = queue->holders.front();
    line += "; " + std::to_string(queue->held) + (queue->held == 1 ? " slot is" : " slots are") +
            " held, the first by " + first.session + (first.description.empty() ? "" : " (" + first.description + ")");
    if (first.age) line += ", which joined " + std::to_string(first.age->count()) + " s ago";
    if (queue->held_here != 0)
      line += "; " + std::to_string(queue->held_here) + " of them by this object itself: does that holder wait here?";
    if (queue->place) line += "; this process has place " + std::to_string(*queue->place) + " in the queue";
  }
  if (!server_message.empty()) line += "; the server said: " + server_message;
  // Keys and server texts may contain anything, and a log line must stay one line.
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

error_with_diagnostics::error_with_diagnostics(const error_code& ec, const diagnostics& why)
    : error_with_diagnostics(ec, why.to_string(), why) {}

error_with_diagnostics::error_with_diagnostics(const error_code& ec, const std::string& text, const diagnostics& why)
    : system_error(ec) {
  std::string what = text;
  const std::string message = ec.message();
  if (what.find(message) == std::string::npos) what += (what.empty() ? "" : ": ") + message;
  content_ = std::make_shared<const content>(content{std::move(what), why});
}

namespace detail {

struct outcome::failure {
  error_code code;
  diagnostics why;
};

/// The failure of an operation whose own failure there is no memory for.
outcome::failure& outcome::without_memory() noexcept {
  static failure its{make_error_code(boost::system::errc::not_enough_memory), {}};
  return its;
}

void outcome::deleter::operator()(failure* ended) const noexcept {
  if (ended != &without_memory()) delete ended;
}

error_code outcome::code_of(const failure& ended) noexcept { return ended.code; }

outcome::outcome(const error_code& ec, diagnostics why) noexcept {
  if (ec) failure_.reset(new (std::nothrow) failure{ec, std::move(why)});
  if (ec && !failure_) failure_.reset(&without_memory());
}

std::exception_ptr outcome::make_exception() const noexcept {
  try {
    return std::make_exception_ptr(error_with_diagnostics(failure_->code, failure_->why));
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace detail

}  // namespace holdfast
