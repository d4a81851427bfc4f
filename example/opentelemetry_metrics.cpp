// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Shows the statistics of a semaphore as metrics of OpenTelemetry, and prints them. OpenTelemetry reads counters and
// gauges when it exports. It has no such way for histograms, so a tracer records each wait and each hold.

#include <opentelemetry/context/context.h>
#include <opentelemetry/exporters/ostream/metric_exporter_factory.h>
#include <opentelemetry/metrics/meter.h>
#include <opentelemetry/metrics/provider.h>
#include <opentelemetry/sdk/metrics/aggregation/aggregation_config.h>
#include <opentelemetry/sdk/metrics/export/periodic_exporting_metric_reader_factory.h>
#include <opentelemetry/sdk/metrics/export/periodic_exporting_metric_reader_options.h>
#include <opentelemetry/sdk/metrics/meter_provider.h>
#include <opentelemetry/sdk/metrics/meter_provider_factory.h>
#include <opentelemetry/sdk/metrics/view/instrument_selector_factory.h>
#include <opentelemetry/sdk/metrics/view/meter_selector_factory.h>
#include <opentelemetry/sdk/metrics/view/view_factory.h>

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;
namespace metrics = opentelemetry::metrics;
using opentelemetry::nostd::shared_ptr;
using opentelemetry::nostd::unique_ptr;

namespace {

opentelemetry::nostd::string_view view(std::string_view text) { return {text.data(), text.size()}; }

/// The counters and gauges of a semaphore, which must outlive them. OpenTelemetry reads them on a thread of its own;
/// `statistics` may be called on any thread.
class semaphore_instruments {
public:
  semaphore_instruments(metrics::Meter& meter, const holdfast::semaphore& sem)
      : sem_(sem),
        acquires_(
            meter.CreateInt64ObservableCounter("holdfast.acquires", "Acquires that have completed.", "{acquire}")),
        losses_(meter.CreateInt64ObservableCounter("holdfast.losses", "Held slots that were lost.", "{slot}")),
        holds_(meter.CreateInt64ObservableGauge("holdfast.holds", "Handles that hold a slot now.", "{slot}")) {
    acquires_->AddCallback(observe_acquires, this);
    losses_->AddCallback(observe_losses, this);
    holds_->AddCallback(observe_holds, this);
  }
  semaphore_instruments(const semaphore_instruments&) = delete;
  semaphore_instruments& operator=(const semaphore_instruments&) = delete;
  ~semaphore_instruments() {
    acquires_->RemoveCallback(observe_acquires, this);
    losses_->RemoveCallback(observe_losses, this);
    holds_->RemoveCallback(observe_holds, this);
  }

private:
  using integers = shared_ptr<metrics::ObserverResultT<std::int64_t>>;

  static void observe_acquires(metrics::ObserverResult result, void* self) {
    const auto& sem = static_cast<semaphore_instruments*>(self)->sem_;
    const holdfast::lock_statistics now = sem.statistics();
    const auto& into = opentelemetry::nostd::get<integers>(result);
    into->Observe(static_cast<std::int64_t>(now.granted), {{"lock", sem.prefix()}, {"outcome", "granted"}});
    into->Observe(static_cast<std::int64_t>(now.denied), {{"lock", sem.prefix()}, {"outcome", "denied"}});
  }
  static void observe_losses(metrics::ObserverResult result, void* self) {
    const auto& sem = static_cast<semaphore_instruments*>(self)->sem_;
    const holdfast::lock_statistics now = sem.statistics();
    for (const holdfast::loss_reason why : holdfast::loss_reasons)
      if (why != holdfast::loss_reason::none)
        opentelemetry::nostd::get<integers>(result)->Observe(
            static_cast<std::int64_t>(now.lost[why]), {{"lock", sem.prefix()}, {"reason", view(to_string(why))}});
  }
  static void observe_holds(metrics::ObserverResult result, void* self) {
    const auto& sem = static_cast<semaphore_instruments*>(self)->sem_;
    opentelemetry::nostd::get<integers>(result)->Observe(static_cast<std::int64_t>(sem.statistics().held),
                                                         {{"lock", sem.prefix()}});
  }

  const holdfast::semaphore& sem_;
  const shared_ptr<metrics::ObservableInstrument> acquires_, losses_, holds_;
};

/// Records how long acquires wait, and how long slots are held. It may be called on several threads.
class duration_recorder final : public holdfast::tracer {
public:
  explicit duration_recorder(metrics::Meter& meter)
      : waits_(meter.CreateDoubleHistogram("holdfast.wait.duration", "How long acquires have waited.", "s")),
        holds_(meter.CreateDoubleHistogram("holdfast.hold.duration", "How long slots were held.", "s")) {}

  std::shared_ptr<holdfast::trace_span> started(const holdfast::span_start& what) noexcept override {
    if (what.kind == holdfast::span_kind::request) return nullptr;
    auto& into = what.kind == holdfast::span_kind::wait ? *waits_ : *holds_;
    return std::make_shared<span>(into, std::string(what.key), what.at);
  }

private:
  using histogram = metrics::Histogram<double>;

  class span final : public holdfast::trace_span {
  public:
    span(histogram& into, std::string key, std::chrono::system_clock::time_point begun)
        : into_(into), key_(std::move(key)), begun_(begun) {}
    void ended(const holdfast::span_end& how) noexcept override {
      if (how.error) return;
      const std::chrono::duration<double> time = how.at - begun_;
      into_.Record(time.count(), {{"lock", view(key_)}}, opentelemetry::context::Context());
    }

  private:
    histogram& into_;
    const std::string key_;
    const std::chrono::system_clock::time_point begun_;
  };

  const unique_ptr<histogram> waits_, holds_;
};

/// Makes a view with these buckets. In opentelemetry-cpp 1.19 a view also has a unit, and in 1.28 it has none.
template <class Factory = opentelemetry::sdk::metrics::ViewFactory>
auto view_of(const std::shared_ptr<opentelemetry::sdk::metrics::AggregationConfig>& buckets) {
  constexpr auto kind = opentelemetry::sdk::metrics::AggregationType::kHistogram;
  if constexpr (requires { Factory::Create("", "", "", kind, buckets); })
    return Factory::Create("", "", "", kind, buckets);
  else
    return Factory::Create("", "", kind, buckets);
}

/// All histograms of holdfast get the buckets of `duration_histogram`.
void choose_buckets(opentelemetry::sdk::metrics::MeterProvider& provider) {
  namespace sdk = opentelemetry::sdk::metrics;
  auto buckets = std::make_shared<sdk::HistogramAggregationConfig>();
  for (const auto bound : holdfast::duration_histogram::bounds)
    buckets->boundaries_.push_back(std::chrono::duration<double>(bound).count());
  provider.AddView(sdk::InstrumentSelectorFactory::Create(sdk::InstrumentType::kHistogram, "*", "s"),
                   sdk::MeterSelectorFactory::Create("holdfast", "", ""), view_of(buckets));
}

asio::awaitable<void> hold_and_show(holdfast::consul::client consul, opentelemetry::sdk::metrics::MeterProvider& sdk) {
  const shared_ptr<metrics::Meter> meter = sdk.GetMeter("holdfast");
  const auto durations = std::make_shared<duration_recorder>(*meter);
  holdfast::semaphore_options options{.prefix = "service/reports", .limit = 2};
  options.tracer = durations;
  holdfast::semaphore sem(consul, std::move(options));
  const semaphore_instruments instruments(*meter, sem);
  holdfast::slot first = co_await sem.acquire();
  co_await first.release();
  holdfast::slot held = co_await sem.acquire();
  sdk.ForceFlush();
  co_await held.release();
  co_await sem.close();
}

constexpr std::string_view help = R"(usage: opentelemetry_metrics [options]

Holds a slot, and prints the metrics of OpenTelemetry.

)";

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    given.end();
    namespace sdk = opentelemetry::sdk::metrics;
    const std::shared_ptr<sdk::MeterProvider> provider = sdk::MeterProviderFactory::Create();
    choose_buckets(*provider);
    provider->AddMetricReader(sdk::PeriodicExportingMetricReaderFactory::Create(
        opentelemetry::exporter::metrics::OStreamMetricExporterFactory::Create(std::cout),
        sdk::PeriodicExportingMetricReaderOptions()));
    example::agent(given.consul()).run([&](const holdfast::consul::client& consul) {
      return hold_and_show(consul, *provider);
    });
    return 0;
  });
}
