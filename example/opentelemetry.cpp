// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Makes spans of OpenTelemetry from the waits, holds and requests of holdfast, and prints them. The parent of a wait is
// the span of the code that waits. Run two of these at the same time, and the spans of both have the key of the lock,
// the session and the fencing token in common.

#include <opentelemetry/exporters/ostream/span_exporter_factory.h>
#include <opentelemetry/sdk/resource/resource.h>
#include <opentelemetry/sdk/trace/simple_processor_factory.h>
#include <opentelemetry/sdk/trace/tracer_provider_factory.h>
#include <opentelemetry/trace/context.h>
#include <opentelemetry/trace/provider.h>
#include <opentelemetry/trace/span_startoptions.h>
#include <opentelemetry/trace/tracer.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;
namespace trace = opentelemetry::trace;

namespace {

opentelemetry::nostd::string_view view(std::string_view text) { return {text.data(), text.size()}; }

class span final : public holdfast::trace_span {
public:
  explicit span(opentelemetry::nostd::shared_ptr<trace::Span> made) : made_(std::move(made)) {}

  void describe(const holdfast::held_slot& slot) const {
    if (!slot.session.empty()) made_->SetAttribute("holdfast.session", view(slot.session));
    if (slot.token) made_->SetAttribute("holdfast.fencing_token", slot.token->to_string());
    if (slot.number) made_->SetAttribute("holdfast.slot_number", *slot.number);
  }
  void ended(const holdfast::span_end& how) noexcept override {
    if (how.slot) describe(*how.slot);
    if (how.error) made_->SetStatus(trace::StatusCode::kError, how.error.message());
    if (how.reason != holdfast::loss_reason::none)
      made_->SetStatus(trace::StatusCode::kError, view(to_string(how.reason)));
    made_->End();
  }
  trace::SpanContext context() const { return made_->GetContext(); }

private:
  const opentelemetry::nostd::shared_ptr<trace::Span> made_;
};

class tracer final : public holdfast::tracer {
public:
  std::shared_ptr<holdfast::trace_span> started(const holdfast::span_start& what) noexcept override {
    trace::StartSpanOptions options;
    options.start_system_time = opentelemetry::common::SystemTimestamp(what.at);
    if (what.wait != nullptr)
      options.parent = static_cast<const span*>(what.wait)->context();
    else if (what.parent == holdfast::no_parent)
      options.parent = opentelemetry::context::Context(trace::kIsRootSpanKey, true);
    else if (what.parent != nullptr)
      options.parent = *static_cast<const trace::SpanContext*>(what.parent);
    // Otherwise OpenTelemetry takes the span that is active on this thread.
    const auto made =
        provider_->GetTracer("holdfast")->StartSpan(view(what.name), {{"holdfast.key", view(what.key)}}, options);
    auto result = std::make_shared<span>(made);
    if (what.slot) result->describe(*what.slot);
    return result;
  }

private:
  const opentelemetry::nostd::shared_ptr<trace::TracerProvider> provider_ = trace::Provider::GetTracerProvider();
};

asio::awaitable<void> work(holdfast::consul::client consul, std::shared_ptr<tracer> spans,
                           std::chrono::milliseconds time) {
  const auto tracer_of_this = trace::Provider::GetTracerProvider()->GetTracer("example");
  const auto request = tracer_of_this->StartSpan("handle request");
  const trace::SpanContext parent = request->GetContext();

  holdfast::semaphore_options options{.prefix = "service/reports", .limit = 1};
  options.tracer = std::move(spans);
  holdfast::semaphore sem(consul, std::move(options));
  holdfast::acquire_options how;
  how.trace_parent = &parent;  // a coroutine may change threads, so the active span of a thread says little
  holdfast::slot held = co_await sem.acquire(how);
  std::cout << "working" << std::endl;
  asio::steady_timer done(co_await asio::this_coro::executor, time);
  co_await done.async_wait(asio::use_awaitable);
  co_await held.release();
  co_await sem.close();
  request->End();
}

constexpr std::string_view help = R"(usage: opentelemetry [options]

Waits for a slot, works, releases it, and prints the spans of OpenTelemetry.

  --work-ms N       how long it works (100)
)";

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    const std::chrono::milliseconds time(given.number("--work-ms", 100, 0, 60'000));
    given.end();
    namespace sdk = opentelemetry::sdk::trace;
    auto processor = sdk::SimpleSpanProcessorFactory::Create(
        opentelemetry::exporter::trace::OStreamSpanExporterFactory::Create(std::cout));
    std::shared_ptr<trace::TracerProvider> provider = sdk::TracerProviderFactory::Create(std::move(processor));
    trace::Provider::SetTracerProvider(opentelemetry::nostd::shared_ptr<trace::TracerProvider>(provider));
    const example::agent agent(given.consul());
    const auto spans = std::make_shared<tracer>();
    agent.run([&](const holdfast::consul::client& untraced) {
      holdfast::consul::config config = agent.config();
      config.tracer = spans;
      return work(holdfast::consul::client(untraced.get_executor(), std::move(config)), spans, time);
    });
    return 0;
  });
}
