#pragma once

#include "connection.hpp"
#include "url.hpp"

namespace holdfast::consul::detail {

struct resolution {
  error_code error;  ///< asio::error::timed_out after the deadline
  connection::endpoints endpoints;
};

/// A UNIX socket and an IP literal resolve at once; a name by the system's resolver, which may block a thread of Asio's
/// far beyond the deadline: then it is left alone with its answer.
awaitable<resolution> resolve(const strand_type& strand, const agent_address& address, time_point deadline);

}  // namespace holdfast::consul::detail
