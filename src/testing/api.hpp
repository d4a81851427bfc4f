// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/testing/store.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Consul's HTTP API on a store, without I/O: it maps a request to a reply.
namespace holdfast::testing::detail {

struct api_request {
  std::string method;
  std::string target;  ///< path and query, percent-encoded
  std::string body;
};

struct api_reply {
  unsigned status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  ///< without Connection and Content-Length
  std::string body;
  bool operator==(const api_reply&) const = default;
};

struct api_answer {
  api_reply reply;
  /// Set for a blocking query that must wait. The caller watches this subject for `wait` and the random time that
  /// Consul adds. If the watch fires, the caller handles the request again. When the time is over, the caller sends
  /// `reply`.
  std::optional<subject> waits_for{};
  store::duration wait{0};
};

class api {
public:
  api(store& model, std::uint64_t seed) : model_(model), random_(seed) {}

  /// The caller must call `advance(now)` of the store first.
  api_answer handle(const api_request& request, store::time_point now);

private:
  store& model_;
  std::mt19937_64 random_;
};

}  // namespace holdfast::testing::detail
