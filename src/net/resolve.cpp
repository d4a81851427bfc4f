// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/resolve.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <exception>
#include <map>
#include <string>
#include <system_error>
#include <utility>

#include "lifetime/per_process.hpp"
#include "platform/detached_thread.hpp"

namespace holdfast::net {

std::optional<resolution> lookup::answer() const {
  const std::lock_guard lock(mutex_);
  return answer_;
}

void lookup::add(listener& one) {
  const std::lock_guard lock(mutex_);
  if (!answer_) listeners_.push_back(one);
}

void lookup::remove(listener& one) noexcept {
  const std::lock_guard lock(mutex_);
  if (one.is_linked()) listeners_.erase(listeners_.iterator_to(one));
}

void lookup::end(resolution answer) noexcept {
  const std::lock_guard lock(mutex_);
  answer_ = std::move(answer);
  while (!listeners_.empty()) {
    listener& one = listeners_.front();
    listeners_.pop_front();
    one.on_answer();
  }
}

std::optional<resolution> without_lookup(const address& of) {
  resolution literal;
  if (of.is_path) {
    literal.endpoints.emplace_back(asio::local::stream_protocol::endpoint(of.host));
    return literal;
  }
  const auto ip = asio::ip::make_address(of.host, literal.error);
  if (literal.error) return std::nullopt;
  literal.endpoints.emplace_back(asio::ip::tcp::endpoint(ip, of.port));
  return literal;
}

namespace {

resolution ask_the_system(const address& name) noexcept try {
  asio::io_context only_for_the_resolver(1);
  asio::ip::tcp::resolver resolver(only_for_the_resolver);
  resolution found;
  const auto results =
      resolver.resolve(name.host, std::to_string(name.port), asio::ip::resolver_base::numeric_service, found.error);
  for (const auto& entry : results) found.endpoints.push_back(entry.endpoint());
  return found;
} catch (const std::exception&) {
  return {asio::error::no_memory, {}};
}

/// The lookups that are running in this process. Thread-safe.
class running_lookups {
public:
  std::shared_ptr<lookup> find_or_begin(const address& name) {
    const std::lock_guard lock(mutex_);
    const std::shared_ptr<name_in_use> its = in_use(name);
    const bool is_young = its->last && clock::now() - its->last->begun() < lookup_max;
    if (is_young || its->threads == threads_of_a_name_max) return its->last;
    if (threads_ == threads_max) {
      if (its->last) return its->last;
      throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again), "too many name lookups");
    }
    auto job = std::make_shared<lookup>();
    platform::start_detached([this, name, its, job] {
      resolution found = ask_the_system(name);
      ended(*its, job);
      job->end(std::move(found));
    });
    ++threads_;
    ++its->threads;
    return its->last = std::move(job);
  }

private:
  struct name_in_use {
    std::shared_ptr<lookup> last{};  // null if none is running
    unsigned threads = 0;
  };
  // A name whose server does not answer keeps at most two threads, so many such names leave some for the others.
  static constexpr unsigned threads_of_a_name_max = 2;
  static constexpr std::size_t threads_max = 64;

  std::shared_ptr<name_in_use> in_use(const address& name) {
    std::shared_ptr<name_in_use>& its = by_name_[name.authority()];
    if (!its) its = std::make_shared<name_in_use>();
    return its;
  }
  void ended(name_in_use& its, const std::shared_ptr<lookup>& job) noexcept {
    const std::lock_guard lock(mutex_);
    --threads_;
    --its.threads;
    if (its.last == job) its.last.reset();
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<name_in_use>> by_name_;  // a program has few names
  std::size_t threads_ = 0;
};

lifetime::per_process<running_lookups> running;

}  // namespace

std::shared_ptr<lookup> look_up(const address& name) { return running->find_or_begin(name); }

}  // namespace holdfast::net
