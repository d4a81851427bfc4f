#pragma once

#include <cstdint>
#include <holdfast/testing/store.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Consul's HTTP API on a store. Pure: a request in, a reply out.
namespace holdfast::testing::detail {

struct api_request {
  std::string method;
  std::string target;  ///< path and query, percent-encoded
  std::string body;
};

struct api_reply {
  unsigned status = 200;
  std::vector<std::pair<std::string, std::string>> headers;  ///< without Content-Length and Date
  std::string body;
  bool operator==(const api_reply&) const = default;
};

struct api_answer {
  api_reply reply;
  /// Set: a blocking query whose time has not come. It waits on this, for at most `wait`, and asks again when that has
  /// fired; if the time is over, `reply` is what it gets.
  std::optional<subject> waits_for{};
  store::duration wait{0};
};

class api {
public:
  api(store& model, std::uint64_t seed) : model_(model), random_(seed) {}

  /// Time must have been given to the store before, by `advance(now)`.
  api_answer handle(const api_request& request, store::time_point now);

private:
  store& model_;
  std::mt19937_64 random_;
};

}  // namespace holdfast::testing::detail
