// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <functional>
#include <holdfast/broker_statistics.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/election.hpp>
#include <holdfast/semaphore_status.hpp>
#include <holdfast/slot_source.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// The statistics of locks and clients of this process, in Prometheus' text format. A program adds its locks once, and
/// serves `text()` over HTTP. The library opens no port. doc/reference/metrics.md lists the metrics.
///
/// Each lock gets the labels `lock` and `kind`. The metrics of locks with the same labels are added up: a program that
/// makes many short-lived semaphores maps their prefixes to a few labels. A gauge that cannot be added (`limit`,
/// `place`) shows the largest value. The counters of a lock that was destroyed stay in the sums.
///
/// Threads: all members may be called from any thread at any time. Assignment, move and destruction must not run at the
/// same time as another call on the same object. `text` is not called on the thread of a lock, and blocks no operation
/// of a lock for longer than a few microseconds.
///
/// Lifetimes: the object keeps no lock and no client alive. It is cheap to copy, and all copies are the same.
///
/// <!-- cut from example/in_the_headers.cpp: prometheus -->
/// ```cpp
/// std::string metrics_of(const holdfast::consul::client& consul, const holdfast::semaphore& sem) {
///   holdfast::prometheus_text metrics([](std::string_view prefix) {
///     return std::string(prefix.substr(0, prefix.find('/')));  // "service" for "service/reports"
///   });
///   metrics.add(sem);
///   metrics.add(consul, "consul");
///   return metrics.text();  // the reply to GET /metrics
/// }
/// ```
class HOLDFAST_EXPORT prometheus_text {
public:
  /// Maps the prefix, key or name of a lock to the value of its label `lock`. It should return few different values,
  /// because each of them makes about a hundred time series.
  using label_function = std::function<std::string(std::string_view name)>;

  /// The value of the HTTP header `Content-Type`.
  static constexpr std::string_view content_type = "text/plain; version=0.0.4; charset=utf-8";

  /// Without a function, the label is the prefix, key or name itself.
  explicit prometheus_text(label_function label = {});

  /// Adds a semaphore, a mutex or a mutex set, on any backend. It must not be empty, and should be added once.
  void add(const slot_source& lock);
  void add(const election& candidates);
  /// Adds a client. `name` becomes its label `client`.
  void add(const consul::client& client, std::string name);
  /// Adds another source of the statistics of a client of RabbitMQ: see `rabbitmq::add_to`. `read` is called by `text`.
  /// It returns nothing once the client is gone.
  void add(std::function<std::optional<broker_statistics>()> read, std::string name);

  /// Returns all metrics.
  std::string text() const;

private:
  class registry;
  std::shared_ptr<registry> registry_;
};

/// A reading of one semaphore or mutex in Consul, as `semaphore_administration::inspect` returns it.
struct cluster_reading {
  std::string prefix;
  std::optional<semaphore_status> status{};  ///< empty: it could not be read
  /// How long the oldest present hold has lasted, as far as the reader knows.
  std::optional<std::chrono::nanoseconds> oldest_hold{};
};

/// Returns the cluster's view of semaphores in Prometheus' text format, for `holdfast export` and programs like it. It
/// includes processes that do not use this library. Each prefix may occur once.
HOLDFAST_EXPORT std::string prometheus_text_of(const std::vector<cluster_reading>& all);

}  // namespace holdfast
