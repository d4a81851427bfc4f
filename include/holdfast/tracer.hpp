// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <holdfast/fencing_token.hpp>
#include <holdfast/loss_reason.hpp>
#include <memory>
#include <optional>
#include <string_view>

namespace holdfast {

/// The kinds of spans.
enum class span_kind {
  wait,     ///< an acquire, from its initiating function to its completion
  hold,     ///< a held slot, from its grant to its release or loss
  request,  ///< an operation of a client, with its retries
};

/// Identifies a hold. Spans of several processes are linked by the key of their lock and by these fields, because
/// nothing else goes over the wire. Fields that a backend does not have are empty.
struct held_slot {
  std::string_view session{};
  std::optional<fencing_token> token{};
  std::optional<std::uint32_t> number{};
};

/// The end of a span.
struct span_end {
  std::chrono::system_clock::time_point at{};
  error_code error{};                      ///< the error of the wait or the request
  loss_reason reason = loss_reason::none;  ///< the reason, if a hold was lost
  const held_slot* slot = nullptr;         ///< the slot that a wait got; otherwise null
};

/// The user's record of one wait, hold or request.
class HOLDFAST_EXPORT trace_span {
public:
  /// Called without `ended` if the execution context is destroyed first.
  virtual ~trace_span() = default;
  /// Called at most once, on the strand of the client or store, with no lock held.
  virtual void ended(const span_end& how) noexcept = 0;
};

/// The value of `span_start::parent` for requests that a lock makes for all its users.
HOLDFAST_EXPORT inline constexpr char no_parent_object = 0;  // one address in all libraries
inline constexpr const void* no_parent = &no_parent_object;

/// The start of a span.
struct span_start {
  span_kind kind{};
  std::string_view name{};  ///< "acquire", "hold", or the kind of the request, for example "kv_write"
  std::string_view key{};   ///< the prefix, key or name of the lock; the key, session or node of the request
  std::chrono::system_clock::time_point at{};
  /// The `trace_parent` of the caller's options. Null if the caller gave none; then the thread's current span is the
  /// parent. `no_parent` if there is no caller, and for each hold.
  const void* parent = nullptr;
  trace_span* wait = nullptr;       ///< for a hold, the span of its wait; null if `tracer::started` has returned null
  const held_slot* slot = nullptr;  ///< for a hold, its slot
};

/// Gets the beginning and the end of each wait and hold of a lock, or of each request of a client. A user derives from
/// it to make spans, for example those of OpenTelemetry. It is called with no lock held. An acquire whose arguments are
/// refused has no wait. A lock or client without a tracer makes no calls, and has no cost.
///
/// Objects that share a tracer may call it on several threads at the same time.
class HOLDFAST_EXPORT tracer {
public:
  virtual ~tracer() = default;
  /// Called at the start of a wait or a request in its initiating function, on the caller's thread, and at the start of
  /// a hold on the strand of the client or store. All texts and pointers in `what` are valid during the call only. If
  /// the result is null, `ended` is not called.
  virtual std::shared_ptr<trace_span> started(const span_start& what) noexcept = 0;
};

}  // namespace holdfast
