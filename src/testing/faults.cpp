// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <holdfast/testing/faults.hpp>
#include <utility>

namespace holdfast::testing {
namespace {

// A step of SplitMix64, which gives the same numbers on every platform.
std::uint64_t next_random(std::uint64_t& state) noexcept {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

bool happens(double probability, std::uint64_t& random) noexcept {
  if (probability >= 1) return true;
  return static_cast<double>(next_random(random) >> 11) * 0x1p-53 < probability;
}

bool contains(std::string_view text, std::string_view part) noexcept {
  return part.empty() || text.find(part) != std::string_view::npos;
}

}  // namespace

fault_plan::fault_plan(std::vector<fault_rule> rules, std::uint64_t seed) : random_(seed) {
  rules_.reserve(rules.size());
  for (fault_rule& rule : rules) rules_.push_back({std::move(rule), 0, 0});
}

fault_plan fault_plan::random(std::uint64_t seed, double probability, std::chrono::milliseconds longest) {
  const auto some = [&] { return std::chrono::milliseconds(next_random(seed) % (longest.count() + 1)); };
  std::vector<fault> kinds{fault::delay(some()),
                           fault::drop_request(),
                           fault::drop_reply(),
                           fault::cut_reply(),
                           fault::duplicate(),
                           fault::answer(500, "rpc error making call: EOF"),
                           fault::answer_applied(500, "rpc error making call: EOF"),
                           fault::no_leader(),
                           fault::forbidden(),
                           fault::too_many_requests(),
                           fault::rate_limited_by_server(),
                           fault::rate_limited_by_leader(),
                           fault::refuse_connections(),
                           fault::index_reset(),
                           fault::expire_session(),
                           fault::trickle(std::chrono::milliseconds(longest.count() / 200)),
                           fault::repeat_later(some()),
                           fault::interim()};
  std::vector<fault_rule> rules;
  // A rule is evaluated only if no earlier rule was chosen. The conditional probabilities make all entries equally
  // likely. Errors that Consul itself reports have several entries.
  for (std::size_t left = kinds.size(); fault & kind : kinds) {
    const double each = probability / static_cast<double>(kinds.size());
    const double earlier = each * static_cast<double>(kinds.size() - left--);
    rules.push_back({.what = std::move(kind), .times = 0, .probability = each / (1 - earlier)});
  }
  return fault_plan(std::move(rules), seed);
}

fault fault_plan::next(std::string_view line, std::string_view body) {
  for (counted& each : rules_) {
    if (!contains(line, each.rule.target) || !contains(body, each.rule.body)) continue;
    if (each.seen++ < each.rule.skip) continue;
    if (each.rule.times != 0 && each.met >= each.rule.times) continue;
    if (!happens(each.rule.probability, random_)) continue;
    ++each.met;
    ++met_;
    return each.rule.what;
  }
  return {};
}

}  // namespace holdfast::testing
