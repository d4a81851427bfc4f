// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/outcome.hpp"

#include <new>
#include <system_error>

namespace holdfast::runtime {

outcome failed(protocol::failure&& why, diagnostics* diag) {
  if (diag) *diag = why.details;
  return {why.code, std::move(why.details)};
}

outcome outcome_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const system_error& e) {
    return {e.code(), {reason_of(e), {}, {}, {}}};
  } catch (const std::bad_alloc&) {
    return error_code(std::make_error_code(std::errc::not_enough_memory));
  }
}

std::string reason_of(const system_error& failed) {
  std::string text = failed.what();
  const std::string end = failed.code().what();
  if (!text.ends_with(end)) return text;
  text.resize(text.size() - end.size());
  if (text.ends_with(": ")) text.resize(text.size() - 2);
  return text;
}

}  // namespace holdfast::runtime
