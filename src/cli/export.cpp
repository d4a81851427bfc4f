// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/export.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <holdfast/holdfast.hpp>
#include <holdfast/prometheus.hpp>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "cli/arguments.hpp"
#include "cli/operate.hpp"
#include "cli/status.hpp"

namespace holdfast::cli {

namespace {

namespace http = boost::beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr auto as_results = asio::as_tuple(asio::use_awaitable);
constexpr auto idle_timeout = 30s;       // of a connection
constexpr std::size_t connections = 16;  // at once; more of them wait
constexpr std::size_t header_max = 8 * 1024;

/// How long the holders of one semaphore have held their slots. The record does not tell. A hold that began before the
/// first reading counts from the time at which its session joined the queue.
class hold_ages {
public:
  std::optional<std::chrono::nanoseconds> oldest(const semaphore_status& now, clock::time_point at) {
    std::map<std::pair<std::string, fencing_token>, clock::time_point> seen;
    for (const contender_status& each : now.holders) {
      const auto known = since_.find({each.session, each.token});
      const auto joined = at - each.age.value_or(0s);
      seen.emplace(std::pair(each.session, each.token), known != since_.end() ? known->second
                                                        : has_begun_          ? at
                                                                              : joined);
    }
    has_begun_ = true;
    since_ = std::move(seen);
    std::optional<std::chrono::nanoseconds> longest;
    for (const auto& [holder, since] : since_)
      longest = std::max(longest, std::optional<std::chrono::nanoseconds>(at - since));
    return longest;
  }

private:
  bool has_begun_ = false;
  std::map<std::pair<std::string, fencing_token>, clock::time_point> since_;
};

tcp::endpoint endpoint_of(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  unsigned short port = 0;
  const char* const end = text.data() + text.size();
  boost::system::error_code wrong;
  std::string host = colon == std::string::npos ? std::string() : text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const auto address = asio::ip::make_address(host, wrong);
  const char* const digits = text.data() + (colon == std::string::npos ? text.size() : colon + 1);
  const auto [stopped_at, bad] = std::from_chars(digits, end, port);
  if (wrong || bad != std::errc() || stopped_at != end)
    throw usage_error("--listen must be an IP address and a port, such as 127.0.0.1:9753");
  return {address, port};
}

class exporter {
public:
  explicit exporter(export_options options)
      : options_(std::move(options)),
        consul_(io_, options_.consul),
        acceptor_(io_, endpoint_of(options_.listen)),
        signals_(io_, SIGINT, SIGTERM),
        read_(io_) {
    own_.add(consul_, "export");
  }

  int run() {
    const auto at = acceptor_.local_endpoint();
    const std::string host = at.address().is_v6() ? "[" + at.address().to_string() + "]" : at.address().to_string();
    std::printf("serving http://%s:%u/metrics\n", host.c_str(), static_cast<unsigned>(at.port()));
    std::fflush(stdout);
    for (std::size_t i = 0; i < connections; ++i) asio::co_spawn(io_, serve_connections(), asio::detached);
    signals_.async_wait([this](const boost::system::error_code& ec, int) {
      if (!ec) io_.stop();
    });
    io_.run();
    return status_done;
  }

private:
  asio::awaitable<void> serve_connections() {
    for (;;) {
      auto [failed, socket] = co_await acceptor_.async_accept(as_results);
      if (failed == asio::error::operation_aborted) co_return;
      if (failed) {  // for example, there is no descriptor
        asio::steady_timer pause(io_, 100ms);
        co_await pause.async_wait(as_results);
        continue;
      }
      boost::beast::tcp_stream stream(std::move(socket));
      try {
        co_await serve(stream);
      } catch (const std::exception&) {  // the connection of a client that has gone, or that is not one of HTTP
        stream.close();
      }
    }
  }

  asio::awaitable<void> serve(boost::beast::tcp_stream& stream) {
    boost::beast::flat_buffer buffer(header_max);
    for (bool goes_on = true; goes_on;) {
      stream.expires_after(idle_timeout);
      http::request_parser<http::empty_body> parser;
      parser.header_limit(header_max);
      co_await http::async_read(stream, buffer, parser, asio::use_awaitable);
      const auto& request = parser.get();
      http::response<http::string_body> reply(http::status::ok, request.version());
      reply.keep_alive(request.keep_alive());
      goes_on = request.keep_alive();
      const bool is_read = request.method() == http::verb::get || request.method() == http::verb::head;
      const std::string_view target(request.target().data(), request.target().size());
      if (!is_read) {
        reply.result(http::status::method_not_allowed);
      } else if (target.substr(0, target.find('?')) == "/metrics") {
        reply.set(http::field::content_type, std::string(prometheus_text::content_type));
        reply.body() = co_await text(time_for(request["X-Prometheus-Scrape-Timeout-Seconds"]));
      } else {
        reply.result(http::status::not_found);
        reply.body() = "The metrics are at /metrics.\n";
      }
      if (request.method() == http::verb::head) reply.body().clear();
      reply.prepare_payload();
      stream.expires_after(idle_timeout);
      co_await http::async_write(stream, reply, asio::use_awaitable);
    }
    boost::system::error_code ignored;
    stream.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  /// The time that a reading may take. The scrape must be answered in time, or Prometheus learns nothing from it.
  static clock::duration time_for(std::string_view scrape_timeout) {
    double seconds = 0;
    std::from_chars(scrape_timeout.data(), scrape_timeout.data() + scrape_timeout.size(), seconds);
    const bool is_usable = seconds > 0 && seconds < 3600;
    return std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(is_usable ? 0.8 * seconds : 8));
  }

  /// Reads a prefix, but only until `end`. Throws if that fails. A reading takes at most three requests.
  asio::awaitable<semaphore_status> read(std::string prefix, clock::time_point end) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now());
    if (left < 2ms) throw std::runtime_error("not read, because Consul answered too slowly before");
    co_return co_await read_status(consul_, std::move(prefix), left / 3);
  }

  /// Scrapes that overlap share one reading, so that the number of requests to Consul is bounded.
  asio::awaitable<std::string> text(clock::duration time) {
    if (is_reading_) {
      co_await read_.async_wait(as_results);
      co_return last_;
    }
    is_reading_ = true;
    const struct end_of_reading {
      exporter& of;
      ~end_of_reading() {
        of.is_reading_ = false;
        of.read_.cancel();
      }
    } at_the_end{*this};
    read_.expires_at(asio::steady_timer::time_point::max());
    const clock::time_point end = clock::now() + time;
    std::vector<cluster_reading> all;
    for (const std::string& prefix : options_.prefixes) {
      cluster_reading its;
      its.prefix = prefix;
      try {
        its.status = co_await read(prefix, end);
        its.oldest_hold = ages_[prefix].oldest(*its.status, clock::now());
      } catch (const std::exception& failure) {
        std::fprintf(stderr, "holdfast: %s: %s\n", printable(prefix).c_str(), printable(failure.what()).c_str());
      }
      all.push_back(std::move(its));
    }
    last_ = prometheus_text_of(all) + own_.text();
    co_return last_;
  }

  const export_options options_;
  asio::io_context io_{1};
  consul::client consul_;
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  prometheus_text own_;
  std::map<std::string, hold_ages> ages_;
  asio::steady_timer read_;  ///< cancelled when a reading is complete
  bool is_reading_ = false;
  std::string last_;
};

}  // namespace

int serve_metrics(export_options options) {
  try {
    return exporter(std::move(options)).run();
  } catch (const usage_error&) {
    throw;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "holdfast: %s\n", printable(failure.what()).c_str());
    return status_refused;
  }
}

}  // namespace holdfast::cli
