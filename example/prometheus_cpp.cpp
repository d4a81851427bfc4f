// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// For programs that already serve metrics by prometheus-cpp: a `Collectable` that shows the statistics of semaphores
// beside the program's other metrics. A program without such a library uses `holdfast::prometheus_text`, as the example
// `server` does.

#include <prometheus/collectable.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;

namespace {

/// Register it with `prometheus::Exposer::RegisterCollectable`. The semaphores must outlive it. `Collect` is called on
/// a thread of the exposer, and `statistics` may be called from any thread.
class semaphore_collector final : public prometheus::Collectable {
public:
  void add(const holdfast::semaphore& sem) { all_.push_back(&sem); }

  std::vector<prometheus::MetricFamily> Collect() const override {
    using prometheus::MetricType;
    prometheus::MetricFamily granted{
        "holdfast_acquires_total", "Acquires that have completed.", MetricType::Counter, {}};
    prometheus::MetricFamily lost{"holdfast_losses_total", "Held slots that were lost.", MetricType::Counter, {}};
    prometheus::MetricFamily held{"holdfast_holds", "Handles that hold a slot now.", MetricType::Gauge, {}};
    prometheus::MetricFamily wait{"holdfast_wait_seconds", "How long acquires have waited.", MetricType::Histogram, {}};
    for (const holdfast::semaphore* const sem : all_) {
      const holdfast::lock_statistics now = sem->statistics();
      const auto add = [&](prometheus::MetricFamily& to, std::string_view label, std::string_view value) -> auto& {
        prometheus::ClientMetric& metric = to.metric.emplace_back();
        metric.label.push_back({"lock", sem->prefix()});
        if (!label.empty()) metric.label.push_back({std::string(label), std::string(value)});
        return metric;
      };
      add(granted, "outcome", "granted").counter.value = static_cast<double>(now.granted);
      add(granted, "outcome", "denied").counter.value = static_cast<double>(now.denied);
      for (const holdfast::loss_reason why : holdfast::loss_reasons)
        if (why != holdfast::loss_reason::none)
          add(lost, "reason", to_string(why)).counter.value = static_cast<double>(now.lost[why]);
      add(held, {}, {}).gauge.value = static_cast<double>(now.held);
      add(wait, {}, {}).histogram = histogram_of(now.wait);
    }
    return {std::move(granted), std::move(lost), std::move(held), std::move(wait)};
  }

private:
  static prometheus::ClientMetric::Histogram histogram_of(const holdfast::duration_histogram& from) {
    prometheus::ClientMetric::Histogram to;
    for (std::size_t i = 0; i < from.bounds.size(); ++i) {
      to.sample_count += from.buckets[i];
      to.bucket.push_back({to.sample_count, std::chrono::duration<double>(from.bounds[i]).count()});
    }
    to.sample_count += from.buckets.back();
    to.sample_sum = std::chrono::duration<double>(from.sum).count();
    return to;
  }

  std::vector<const holdfast::semaphore*> all_;
};

asio::awaitable<void> hold_and_show(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = "service/reports", .limit = 2});
  semaphore_collector collector;
  collector.add(sem);
  holdfast::slot held = co_await sem.acquire();
  std::cout << prometheus::TextSerializer().Serialize(collector.Collect()) << std::flush;
  co_await held.release();
  co_await sem.close();
}

constexpr std::string_view help = R"(usage: prometheus_cpp [options]

Holds a slot, and prints what prometheus-cpp would serve.

)";

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    given.end();
    example::agent(given.consul()).run(hold_and_show);
    return 0;
  });
}
