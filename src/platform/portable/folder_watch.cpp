// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/folder_watch.hpp"

namespace holdfast::platform {

std::shared_ptr<folder_watch> folder_watch::make(const std::string&) { return nullptr; }

void make_waiter_services(const boost::asio::any_io_executor&) {}

}  // namespace holdfast::platform
