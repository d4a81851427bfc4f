// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/error.hpp>
#include <holdfast/with_slot.hpp>
#include <string>
#include <utility>

namespace holdfast {

namespace {

std::string text_of(loss_reason reason, const diagnostics& details) {
  std::string text(to_string(reason));
  const std::string more = details.to_string();
  return more.empty() ? text : text + ": " + more;
}

}  // namespace

slot_lost_error::slot_lost_error(loss_reason reason, const diagnostics& details)
    : error_with_diagnostics(make_error_code(error::slot_lost), text_of(reason, details), details), reason_(reason) {}

void detail::throw_lost(loss_reason reason, const diagnostics& details, const std::exception_ptr& from_body) {
  if (!from_body) throw slot_lost_error(reason, details);
  try {
    std::rethrow_exception(from_body);
  } catch (const system_error& e) {
    if (e.code() == asio::error::operation_aborted) throw slot_lost_error(reason, details);
    std::throw_with_nested(slot_lost_error(reason, details));
  } catch (...) {
    std::throw_with_nested(slot_lost_error(reason, details));
  }
}

}  // namespace holdfast
