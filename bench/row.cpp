// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "row.hpp"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

namespace holdfast::bench {
namespace {

namespace json = boost::json;

template <class T>
json::value or_null(const std::optional<T>& x) {
  if (x) return *x;
  return nullptr;
}

// Where `distribution` is read: 1 %, 5 % and so on, so that two rows can be drawn over each other.
constexpr double quantiles[] = {.01, .05, .1, .25, .5, .75, .9, .95, .99, .999, 1};

}  // namespace

void row::set_rates(double operations, duration window, const traffic& used) {
  ops_per_s = operations / in_seconds(window);
  if (operations <= 0) return;
  requests_per_op = static_cast<double>(used.requests) / operations;
  bytes_per_op = static_cast<double>(used.bytes) / operations;
}

std::string row::to_json(const parameters& p) const {
  std::optional<double> p50, p99;
  json::array distribution;
  if (times && times->count() > 0) {
    p50 = in_milliseconds(times->quantile(.5));
    p99 = in_milliseconds(times->quantile(.99));
    for (const double q : quantiles) distribution.push_back(in_milliseconds(times->quantile(q)));
  }
  const json::object all = {
      {"workload", p.workload},
      {"system", p.system},
      {"contenders", p.contenders},
      {"limit", p.limit},
      {"ops_per_s", or_null(ops_per_s)},
      {"p50_ms", or_null(p50)},
      {"p99_ms", or_null(p99)},
      {"requests_per_op", or_null(requests_per_op)},
      {"bytes_per_op", or_null(bytes_per_op)},
      {"jain", or_null(jain)},
      {"bytes_per_waiter", or_null(bytes_per_waiter)},
      {"resident_per_waiter", or_null(resident_per_waiter)},
      {"limit_held", or_null(limit_held)},
      {"connections", or_null(connections)},
      {"turn_wait_max", or_null(turn_wait_max)},
      {"wait_error", or_null(wait_error)},
      {"processes", processes},
      {"not_served", not_served},
      {"errors", errors},
      {"rate", p.rate > 0 ? json::value(p.rate) : json::value(nullptr)},
      {"samples", times ? times->count() : 0},
      {"distribution", distribution},
  };
  return json::serialize(all);
}

}  // namespace holdfast::bench
