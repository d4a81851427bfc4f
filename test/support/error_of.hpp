// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/error.hpp>
#include <optional>

#include "support/async.hpp"

namespace holdfast::test {

/// Starts an operation with a handler on a context of its own. Returns its error.
template <class Begin>
error_code error_of(Begin begin) {
  asio::io_context io(1);
  std::optional<error_code> ended;
  begin(asio::bind_executor(io, [&](error_code ec, auto&&...) { ended = ec; }));
  BOOST_TEST(!ended.has_value());  // never within the initiating function
  while (!ended) BOOST_REQUIRE(io.run_one_for(scaled(60s)) == 1u);
  return *ended;
}

}  // namespace holdfast::test
