// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "protocol/core/context.hpp"
#include "protocol/core/contradictions.hpp"
#include "protocol/core/fallible.hpp"

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
class watch_set : public fallible {
public:
  /// A watch of everything was answered without an error.
  void saw_everything(time_point now) { everything_seen_at_ = now; }
  time_point everything_seen_at() const { return everything_seen_at_; }
  /// A watch of one key has failed: until this time a watch of everything replaces it.
  void replace_keys(time_point until) { everything_until_ = until; }
  bool replaces_keys(time_point now) const { return now < everything_until_; }
  /// A watch of one key has failed beside a watch of everything: no entry of our own is watched before this time.
  void leave_out_own_entry(time_point until) { own_entry_from_ = until; }
  time_point own_entry_from() const { return own_entry_from_; }

  bool has(const std::string& key) const;
  bool has_everything() const { return has({}); }

  /// Starts the watches that are wanted and not running, and may stop unwanted ones to make room. `is_covered` returns
  /// true for a key if a watch of everything shows its changes, too. Such a watch is not started while a watch of
  /// everything runs that is not wanted any more. `prefix`: the prefix of all keys. `expects_keys`: see
  /// `action::list_prefix`. `longest`: a wait of this length is made a little shorter at random, so that not all
  /// watches end at once.
  template <class Covered>
  void want(context& ctx, const std::vector<watch>& wanted, const std::string& prefix, bool expects_keys,
            duration longest, Covered is_covered) {
    const bool are_covered = has_everything() && !is_among(wanted, {});
    for (const watch& each : wanted) {
      if (has(each.key) || (are_covered && is_covered(each.key))) continue;
      make_room(ctx, wanted);
      start(ctx, each, prefix, expects_keys, longest);
    }
  }
  /// Removes the watch and returns it. The result is empty if there is no such watch, for example because it was
  /// stopped.
  std::optional<watch> take(request_id id);
  /// A watch was answered without an error, at this index: of everything, or of the key (0 if there is no key).
  void answered(context& ctx, contradiction_news& news, const watch& asked, std::uint64_t index);
  /// No watch is started before this time, because watches came back at once though nothing had changed.
  time_point early_until() const { return early_.retry_at(); }
  /// Stops the watches whose index is above Consul's own index, as after a loss of Consul's state. Such a watch would
  /// report nothing until its wait has expired.
  void stop_sleeping(context& ctx, std::uint64_t consuls_index);

  static bool is_among(const std::vector<watch>& list, const std::string& key);

private:
  void make_room(context& ctx, const std::vector<watch>& wanted);
  void start(context& ctx, watch w, const std::string& prefix, bool expects_keys, duration longest);

  std::vector<watch> running_;
  contradictions early_;
  time_point everything_until_{};    ///< until then a watch of everything replaces the watches of single keys
  time_point everything_seen_at_{};  ///< when a watch of everything was last answered without an error
  /// Beside a watch of everything, no entry of our own is watched before this time, because such a watch has failed.
  time_point own_entry_from_{};
};

}  // namespace holdfast::protocol
