// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/resolve.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/basic_resolver.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

namespace holdfast::net {
namespace {

// The state of a lookup. If the deadline comes first, it outlives the coroutine that waits for it.
struct lookup {
  explicit lookup(const strand_type& strand) : resolver(strand), finished(strand) {}

  asio::ip::basic_resolver<asio::ip::tcp, strand_type> resolver;
  timer_type finished;
  bool answered = false;
  resolution answer;
};

}  // namespace

awaitable<resolution> resolve(const strand_type& strand, const address& where, time_point deadline) {
  resolution literal;
  if (where.is_path) {
    literal.endpoints.emplace_back(asio::local::stream_protocol::endpoint(where.host));
    co_return literal;
  }
  const auto ip = asio::ip::make_address(where.host, literal.error);
  if (!literal.error) {
    literal.endpoints.emplace_back(asio::ip::tcp::endpoint(ip, where.port));
    co_return literal;
  }

  const auto job = std::make_shared<lookup>(strand);
  job->finished.expires_at(deadline);
  job->resolver.async_resolve(where.host, std::to_string(where.port), asio::ip::resolver_base::numeric_service,
                              [job](const error_code& ec, const auto& results) {
                                job->answered = true;
                                job->answer.error = ec;
                                for (const auto& entry : results) job->answer.endpoints.push_back(entry.endpoint());
                                job->finished.cancel();
                              });
  co_await job->finished.async_wait(as_result);
  if (!job->answered) {
    job->resolver.cancel();
    // A cancelled wait also gets here. Then the caller's next co_await throws.
    resolution late;
    late.error = asio::error::timed_out;
    co_return late;
  }
  co_return std::move(job->answer);
}

}  // namespace holdfast::net
