#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "protocol/context.hpp"
#include "protocol/outage.hpp"

namespace holdfast::protocol {

/// A blocking query.
struct watch {
  std::string key;  ///< empty: everything
  std::uint64_t index = 0;
  duration wait{};
  request_id id = 0;
  time_point asked_at{};

  bool is_of_everything() const { return key.empty(); }
};

/// The blocking queries that are under way, the oldest first, and their failures.
class watch_set {
public:
  outage failures{};
  time_point everything_until{};  ///< a watch of a single key has failed: until then one of everything takes its place
  time_point everything_seen_at{};  ///< a watch of everything was answered last
  time_point own_entry_from{};      ///< a watch of an entry of our own beside that has failed: until then there is none

  bool has(const std::string& key) const;
  bool has_everything() const { return has({}); }

  /// Starts those that are wanted and not under way. `is_covered` says of which a watch of everything tells, too.
  /// `prefix`: what everything begins with. `longest`: the wait that is made a little shorter by chance, lest all come
  /// back at once.
  template <class Covered>
  void want(context& ctx, const std::vector<watch>& wanted, const std::string& prefix, duration longest,
            Covered is_covered) {
    const bool are_covered = has_everything() && !is_among(wanted, {});
    for (const watch& each : wanted) {
      if (has(each.key) || (are_covered && is_covered(each.key))) continue;
      make_room(ctx, wanted);
      start(ctx, each, prefix, longest);
    }
  }
  /// None if it was stopped.
  std::optional<watch> take(request_id id);
  /// From above Consul's own index, as after a loss of its state, nothing is told before the wait is over.
  void stop_sleeping(context& ctx, std::uint64_t consuls_index);

  static bool is_among(const std::vector<watch>& list, const std::string& key);

private:
  void make_room(context& ctx, const std::vector<watch>& wanted);
  void start(context& ctx, watch w, const std::string& prefix, duration longest);

  std::vector<watch> running_;
};

}  // namespace holdfast::protocol
