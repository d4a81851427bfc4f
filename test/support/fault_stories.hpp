// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <holdfast/testing/server.hpp>
#include <string>
#include <vector>

namespace holdfast::test {

namespace asio = boost::asio;

/// Shows the exact effect of one kind of fault, on a server or on a proxy before one. The faults are set on `front`.
/// The state is in `model`, which may be the same object.
struct fault_story {
  testing::fault::kind kind;
  std::string name;
  std::function<asio::awaitable<void>(asio::any_io_executor ex, testing::front& front, testing::server& model)> tell;
};

/// One for each kind of fault.
const std::vector<fault_story>& fault_stories();

/// The value of the key; "" if there is none.
std::string value_of(testing::server& model, const std::string& key);

}  // namespace holdfast::test
