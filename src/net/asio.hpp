// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/deferred.hpp>
#include <chrono>

#include "platform/strand.hpp"

// The Asio types of the client, all bound to its strand.
namespace holdfast::net {

namespace asio = boost::asio;

using platform::strand_type;
template <class T>
using awaitable = asio::awaitable<T, strand_type>;

using clock = std::chrono::steady_clock;
using time_point = clock::time_point;
using timer_type = asio::basic_waitable_timer<clock, asio::wait_traits<clock>, strand_type>;

/// The completion token for co_await: the result is a tuple that starts with the error_code. If the coroutine is
/// cancelled, the next co_await still throws.
inline constexpr asio::as_tuple_t<asio::deferred_t> as_result{asio::deferred};

}  // namespace holdfast::net
