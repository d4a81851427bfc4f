// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <array>
#include <charconv>
#include <holdfast/testing/store.hpp>
#include <utility>

#include "consul/encoding/json.hpp"
#include "defect.hpp"
#include "go_text.hpp"
#include "ways.hpp"

namespace holdfast::testing {
namespace {

using consul::kv_entry;
using consul::session_behavior;
using consul::session_info;
using consul::txn_operation;
using consul::txn_verb;
using std::chrono::nanoseconds;

constexpr const char* own_address = "127.0.0.1";
constexpr nanoseconds lock_delay_max = std::chrono::seconds(60);
constexpr nanoseconds tombstone_life = std::chrono::minutes(15);
constexpr nanoseconds tombstone_granularity = std::chrono::seconds(30);

template <class Map>
auto from_prefix(Map& map, std::string_view prefix) {
  return map.lower_bound(prefix);
}

// The position after all keys that start with the prefix.
template <class Map>
auto after_prefix(Map& map, std::string_view prefix) {
  std::string next(prefix);
  while (!next.empty() && next.back() == '\xff') next.pop_back();
  if (next.empty()) return map.end();
  ++reinterpret_cast<unsigned char&>(next.back());
  return map.lower_bound(next);
}

kv_entry entry_of(const txn_operation& op) {
  kv_entry entry;
  entry.key = op.key;
  entry.value = op.value;
  entry.flags = op.flags;
  return entry;
}

void append_without_value(std::vector<kv_entry>& out, const kv_entry& entry) {
  out.push_back({entry.key, {}, entry.flags, entry.session, entry.create_index, entry.modify_index, entry.lock_index});
}

store::time_point later(store::time_point now, nanoseconds by) {
  return by < store::time_point::max() - now ? now + by : store::time_point::max();
}

}  // namespace

std::optional<consul_version> consul_version::from_text(std::string_view text) {
  unsigned numbers[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (unsigned& number : numbers) {
    const bool is_first = &number == numbers;
    if (!is_first) {
      if (at == end || *at != '.') return std::nullopt;
      ++at;
    }
    const auto [next, ec] = std::from_chars(at, end, number);
    if (ec != std::errc()) return std::nullopt;
    at = next;
  }
  return consul_version{numbers[0], numbers[1], numbers[2]};
}

std::string consul_version::to_text() const {
  return std::to_string(major_number) + '.' + std::to_string(minor_number) + '.' + std::to_string(patch_number);
}

store::store(store_options options) : options_(std::move(options)) { add_own_node(); }

// --- Writes

write_result store::write(const txn_operation& op, time_point now) {
  results unused;
  verdict came_to = check_before(op, now);
  if (came_to.what == verdict::kind::done) {
    begin(now);
    came_to = apply(op, unused);
    commit();
    if (came_to.what == verdict::kind::refused && detail::ways::errors_say_what_failed(options_.version))
      came_to.text.insert(0, "raft apply failed: ");
  }
  if (came_to.what == verdict::kind::refused) return {false, refusal{500, std::move(came_to.text)}};
  return {came_to.what == verdict::kind::done, std::nullopt};
}

consul::txn_reply store::transact(const std::vector<txn_operation>& operations, time_point now) {
  consul::txn_reply reply;
  const auto note = [&reply](std::size_t at, verdict came_to) {
    if (came_to.what == verdict::kind::done) return;
    reply.errors.push_back({at, consul::detail::refusal_of(came_to.text), std::move(came_to.text)});
  };
  for (std::size_t i = 0; i < operations.size(); ++i) note(i, check_before(operations[i], now));
  if (!reply.errors.empty()) return reply;

  begin(now);
  for (std::size_t i = 0; i < operations.size(); ++i) {
    note(i, apply(operations[i], reply.results));
    if (!reply.errors.empty() && breaks(defect::first_error_only)) break;
  }
  reply.applied = reply.errors.empty();
  if (reply.applied || breaks(defect::partial_transaction)) {
    commit();
  } else {
    roll_back();
  }
  if (!reply.applied) reply.results.clear();
  return reply;
}

// The checks that Consul makes before it passes the write to Raft.
store::verdict store::check_before(const txn_operation& op, time_point now) const {
  if (op.key.empty() && op.verb != txn_verb::remove_tree) return {verdict::kind::refused, "Must provide key"};
  if (op.verb != txn_verb::lock || breaks(defect::no_lock_delay)) return {};
  const auto delay = lock_delays_.find(op.key);
  if (delay == lock_delays_.end() || delay->second <= now) return {};
  return {verdict::kind::not_done, "failed to lock key " + detail::go_quoted(op.key) + " due to lock delay"};
}

store::verdict store::apply(const txn_operation& op, results& out) {
  const auto no = [&op](std::string_view before, std::string_view after) {
    return verdict{verdict::kind::not_done, std::string(before) + detail::go_quoted(op.key) + std::string(after)};
  };
  const kv_entry* const found = find(op.key);
  switch (op.verb) {
    case txn_verb::set:
      set(op, out);
      return {};
    case txn_verb::cas:
      return cas(op, out);
    case txn_verb::lock:
      return lock(op, out);
    case txn_verb::unlock:
      return unlock(op, out);
    case txn_verb::remove:
      remove(op.key);
      return {};
    case txn_verb::remove_tree:
      remove_tree(op.key);
      return {};
    case txn_verb::remove_cas:
      return remove_cas(op);
    case txn_verb::get:
      if (!found) return no("key ", " doesn't exist");
      out.push_back(*found);
      return {};
    case txn_verb::get_tree: {
      const auto end = after_prefix(entries_, op.key);
      for (auto at = from_prefix(entries_, op.key); at != end; ++at) out.push_back(at->second);
      return {};
    }
    case txn_verb::check_index:
      if (!found) return no("failed to check index, key ", " doesn't exist");
      if (found->modify_index != op.index)
        return no("failed index check for key ",
                  ", current modify index " + std::to_string(found->modify_index) + " != " + std::to_string(op.index));
      append_without_value(out, *found);
      return {};
    case txn_verb::check_session:
      if (!found) return no("failed to check session, key ", " doesn't exist");
      if (found->session != op.session)
        return no("failed session check for key ",
                  ", current session " + detail::go_quoted(found->session) + " != " + detail::go_quoted(op.session));
      append_without_value(out, *found);
      return {};
    case txn_verb::check_not_exists:
      if (found) return no("key ", " exists");
      return {};
  }
  return {};
}

store::verdict store::cas(const txn_operation& op, results& out) {
  const kv_entry* const found = find(op.key);
  bool fits = op.index == (found ? found->modify_index : 0);
  if (breaks(defect::cas_ignores_index) && op.index != 0 && found) fits = true;
  if (breaks(defect::cas_zero_overwrites) && op.index == 0) fits = true;
  if (!fits) return {verdict::kind::not_done, "failed to set key " + detail::go_quoted(op.key) + ", index is stale"};
  set(op, out);
  return {};
}

store::verdict store::remove_cas(const txn_operation& op) {
  const kv_entry* const found = find(op.key);
  if (found && found->modify_index != op.index)
    return {verdict::kind::not_done, "failed to delete key " + detail::go_quoted(op.key) + ", index is stale"};
  remove(op.key);
  return {};
}

store::verdict store::lock(const txn_operation& op, results& out) {
  if (op.session.empty()) return {verdict::kind::refused, "missing session"};
  if (!detail::ways::session_ids_are_any_text(options_.version))
    if (auto wrong = detail::malformed_session_id(op.session)) return {verdict::kind::refused, std::move(*wrong)};
  if (!sessions_.contains(op.session))
    return {verdict::kind::refused, "invalid session " + detail::go_quoted(op.session)};
  const kv_entry* const found = find(op.key);
  const bool free = !found || found->session.empty();
  if (!free && found->session != op.session && !breaks(defect::lock_of_other_succeeds))
    return {verdict::kind::not_done, "failed to lock key " + detail::go_quoted(op.key) + ", lock is already held"};
  kv_entry entry = entry_of(op);
  entry.session = op.session;
  entry.lock_index = found ? found->lock_index : 0;
  if (free && !(found && breaks(defect::lock_index_not_counted))) ++entry.lock_index;
  put(std::move(entry), out);
  return {};
}

store::verdict store::unlock(const txn_operation& op, results& out) {
  if (op.session.empty()) return {verdict::kind::refused, "missing session"};
  const kv_entry* const found = find(op.key);
  if (!found || (found->session != op.session && !breaks(defect::unlock_by_anyone)))
    return {verdict::kind::not_done,
            "failed to unlock key " + detail::go_quoted(op.key) + ", lock isn't held, or is held by another session"};
  kv_entry entry = entry_of(op);
  entry.lock_index = found->lock_index;
  put(std::move(entry), out);
  return {};
}

// A plain write keeps the lock, but resets LockIndex to 0.
void store::set(const txn_operation& op, results& out) {
  kv_entry entry = entry_of(op);
  if (const kv_entry* const found = find(op.key)) {
    if (!breaks(defect::put_drops_session)) entry.session = found->session;
    if (breaks(defect::lock_index_survives_put)) entry.lock_index = found->lock_index;
  }
  put(std::move(entry), out);
}

void store::put(kv_entry entry, results& out) {
  if (breaks(defect::flags_truncated)) entry.flags &= ~std::uint64_t{0} >> 1;
  const auto at = entries_.find(entry.key);
  const bool is_new = at == entries_.end();
  entry.create_index = is_new ? index_ : at->second.create_index;
  entry.modify_index = is_new ? index_ : at->second.modify_index;
  if (is_new && breaks(defect::create_index_survives_delete)) {
    const auto tombstone = tombstones_.find(entry.key);
    if (tombstone != tombstones_.end()) entry.create_index = tombstone->second;
  }
  // A write that changes nothing leaves the indexes unchanged.
  if (is_new || at->second != entry || breaks(defect::identical_write_moves_index)) {
    entry.modify_index = index_;
    touch(entry.key, is_new);
    remember(entry.key);
    kv_index_ = index_;
    entries_.insert_or_assign(entry.key, entry);
  }
  append_without_value(out, entry);
}

void store::remove(const std::string& key) {
  if (!entries_.contains(key)) return;
  remember(key);
  entries_.erase(key);
  if (!breaks(defect::delete_wakes_nobody)) touch(key, true);
  bury(key);
}

// Leaves one tombstone, at the prefix itself, and none if the prefix is empty or has no keys. Consul 1.8 fails to wake
// some queries below the prefix if the same transaction has touched a key there before. It depends on the copied nodes
// of the radix tree which queries these are. The model wakes all of them.
void store::remove_tree(const std::string& prefix) {
  std::vector<std::string> gone;
  const auto end = after_prefix(entries_, prefix);
  for (auto at = from_prefix(entries_, prefix); at != end; ++at) gone.push_back(at->first);
  if (gone.empty()) return;
  remember(prefix);
  for (const std::string& key : gone) {
    remember(key);
    entries_.erase(key);
    if (!breaks(defect::delete_wakes_nobody)) touch(key, true);
  }
  bury(prefix);
}

// For a while, a tombstone prevents the index of listings from decreasing.
void store::bury(const std::string& key) {
  if (breaks(defect::delete_moves_no_index)) return;
  kv_index_ = index_;
  if (key.empty()) return;  // everything is deleted: listings then have the index of all keys
  tombstones_[key] = index_;
  const auto since_start = now_.time_since_epoch() + tombstone_life;
  const time_point due(since_start + tombstone_granularity - since_start % tombstone_granularity);
  if (graves_.empty() || graves_.back().due < due) graves_.push_back({due, 0});
  graves_.back().index = index_;
}

void store::begin(time_point now) {
  now_ = now;
  ++index_;
  kv_index_before_ = kv_index_;
}

// Called before a change of the key or its tombstone.
void store::remember(const std::string& key) {
  const kv_entry* const found = find(key);
  const auto tombstone = tombstones_.find(key);
  undo_.push_back({key, found ? std::optional(*found) : std::nullopt,
                   tombstone != tombstones_.end() ? std::optional(tombstone->second) : std::nullopt});
}

void store::commit() {
  undo_.clear();
  std::erase_if(watches_, [this](registered& watch) {
    if (watch.fires && is_still_missing(watch)) watch.fires = false;
    if (watch.fires) fired_.push_back(watch.id);
    return watch.fires;
  });
}

// In newer versions, Consul wakes up for changes next to a missing key or session, but continues to wait while it is
// still missing.
bool store::is_still_missing(const registered& watch) const {
  if (watch.leaf || !detail::ways::missing_is_no_news(options_.version)) return false;
  if (watch.what.what == subject::kind::key) return !entries_.contains(watch.what.name);
  return watch.what.what == subject::kind::session && !sessions_.contains(watch.what.name);
}

void store::roll_back() {
  const auto put_back = [](auto& map, const std::string& key, auto& was) {
    if (was) {
      map.insert_or_assign(key, *was);
    } else {
      map.erase(key);
    }
  };
  for (auto each = undo_.rbegin(); each != undo_.rend(); ++each) {
    put_back(entries_, each->key, each->entry);
    put_back(tombstones_, each->key, each->tombstone);
  }
  undo_.clear();
  kv_index_ = kv_index_before_;
  for (registered& watch : watches_) watch.fires = false;
}

// --- Reads

const kv_entry* store::find(std::string_view key) const {
  const auto at = entries_.find(key);
  return at == entries_.end() ? nullptr : &at->second;
}

// Consul never answers with index 0, because the next query would then not block.
std::uint64_t store::kv_index() const noexcept { return std::max<std::uint64_t>(kv_index_, 1); }

// The index of the last change below the prefix, as far as the entries and tombstones there tell. If there are none, or
// if the prefix is empty, the index of the last change of any key.
std::uint64_t store::prefix_index(std::string_view prefix) const {
  if (prefix.empty() || breaks(defect::listing_index_is_global)) return kv_index();
  // No index exceeds `kv_index_`, so the loops stop when they reach it: there may be many tombstones.
  std::uint64_t index = 0;
  const auto end = after_prefix(entries_, prefix);
  for (auto at = from_prefix(entries_, prefix); at != end && index < kv_index_; ++at)
    index = std::max(index, at->second.modify_index);
  const auto last = after_prefix(tombstones_, prefix);
  for (auto at = from_prefix(tombstones_, prefix); at != last && index < kv_index_; ++at)
    index = std::max(index, at->second);
  return index != 0 ? index : kv_index();
}

std::uint64_t store::index_of(const subject& asked) const {
  switch (asked.what) {
    case subject::kind::key: {
      const kv_entry* const found = find(asked.name);
      if (!found && breaks(defect::missing_key_index_zero)) return 0;
      return found ? found->modify_index : kv_index();
    }
    case subject::kind::prefix:
      return prefix_index(asked.name);
    case subject::kind::node: {
      const auto at = nodes_.find(detail::lower_case(asked.name));
      if (!detail::ways::nodes_have_indexes(options_.version)) return at != nodes_.end() ? node_index_ : 1;
      return at != nodes_.end() ? at->second.modify_index : std::max<std::uint64_t>(gone_index_, 1);
    }
    case subject::kind::nodes:
      return std::max<std::uint64_t>(node_index_, 1);
    case subject::kind::session:
    case subject::kind::sessions:
    case subject::kind::node_sessions:
      break;
  }
  return std::max<std::uint64_t>(session_index_, 1);
}

consul::answer<std::optional<kv_entry>> store::get(std::string_view key) const {
  const kv_entry* const found = find(key);
  return {found ? std::optional(*found) : std::nullopt, {.index = index_of({subject::kind::key, std::string(key)})}};
}

consul::answer<std::vector<kv_entry>> store::list(std::string_view prefix) const {
  consul::answer<std::vector<kv_entry>> out;
  const auto end = after_prefix(entries_, prefix);
  for (auto at = from_prefix(entries_, prefix); at != end; ++at) {
    const std::string_view rest = std::string_view(at->first).substr(prefix.size());
    if (breaks(defect::tree_is_folder) && !prefix.ends_with('/') && !rest.empty() && rest.front() != '/') continue;
    out.value.push_back(at->second);
  }
  out.meta.index = prefix_index(prefix);
  return out;
}

consul::answer<std::vector<std::string>> store::keys(std::string_view prefix, std::string_view separator) const {
  consul::answer<std::vector<std::string>> out;
  const auto end = after_prefix(entries_, prefix);
  for (auto at = from_prefix(entries_, prefix); at != end; ++at) {
    std::string_view key = at->first;
    const std::size_t cut =
        separator.empty() || breaks(defect::keys_not_cut) ? std::string_view::npos : key.find(separator, prefix.size());
    if (cut != std::string_view::npos) key = key.substr(0, cut + separator.size());
    if (out.value.empty() || out.value.back() != key) out.value.emplace_back(key);
  }
  out.meta.index = prefix_index(prefix);
  return out;
}

// --- Sessions

namespace {

// Consul separates a node's name and the id of its session by a zero byte. In the model a zero byte ends a path (see
// below), so the separator is 1.
std::string sessions_key(std::string_view node) { return detail::lower_case(node) + '\x01'; }

}  // namespace

std::optional<refusal> store::create_session(session_info session, time_point now) {
  if (session.ttl != nanoseconds(0) &&
      (session.ttl < options_.session_ttl_min || session.ttl > options_.session_ttl_max))
    return refusal{500, "Invalid Session TTL '" + std::to_string(session.ttl.count()) + "', must be between [" +
                            detail::go_duration(options_.session_ttl_min) + "=" +
                            detail::go_duration(options_.session_ttl_max) + "]"};
  ++index_;
  if (session.node.empty()) session.node = options_.node;
  const auto node = nodes_.find(detail::lower_case(session.node));
  const std::string failed = detail::ways::errors_say_what_failed(options_.version) ? "apply failed: " : "";
  if (node == nodes_.end()) return refusal{500, failed + "Missing node registration"};
  for (const std::string& check : session.node_checks)
    if (check != "serfHealth" || !node->second.serf_health)
      return refusal{500, std::string(failed).append("Missing check '").append(check).append("' registration")};
  session_index_ = session.create_index = session.modify_index = index_;
  touch_session(session);
  sessions_by_node_.emplace(sessions_key(session.node) + session.id, session.id);
  lease held{std::move(session)};
  if (held.info.ttl != nanoseconds(0)) held.ends = later(now, 2 * held.info.ttl);
  next_end_ = std::min(next_end_, held.ends);
  const std::string id = held.info.id;
  sessions_.insert_or_assign(id, std::move(held));
  commit();
  return std::nullopt;
}

bool store::renew_session(std::string_view id, time_point now) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) return false;
  if (at->second.info.ttl != nanoseconds(0)) at->second.ends = later(now, 2 * at->second.info.ttl);
  return true;
}

void store::destroy_session(std::string_view id, time_point now) {
  if (!sessions_.contains(id)) return;
  end_session(std::string(id), now);
}

void store::end_session(const std::string& id, time_point now) {
  begin(now);
  close_session(id);
  commit();
}

// A part of the current write.
void store::close_session(const std::string& id) {
  const auto at = sessions_.find(id);
  const session_info session = std::move(at->second.info);
  sessions_.erase(at);
  sessions_by_node_.erase(sessions_key(session.node) + id);
  session_index_ = index_;
  touch_session(session);
  std::vector<kv_entry> locked;
  for (const auto& [key, entry] : entries_)
    if (entry.session == id && !breaks(defect::destroy_keeps_locks)) locked.push_back(entry);
  results unused;
  for (kv_entry& entry : locked) {
    if (session.lock_delay > nanoseconds(0))
      lock_delays_[entry.key] = later(now_, std::min(session.lock_delay, lock_delay_max));
    if (session.behavior == session_behavior::remove || breaks(defect::release_deletes)) {
      remove(entry.key);
    } else {
      entry.session.clear();
      put(std::move(entry), unused);
    }
  }
}

template <class Condition>
void store::end_sessions_if(Condition ended, time_point now) {
  std::vector<std::string> gone;
  for (const auto& [id, held] : sessions_)
    if (ended(held)) gone.push_back(id);
  for (const std::string& id : gone) end_session(id, now);
}

consul::answer<std::optional<session_info>> store::session(std::string_view id) const {
  const auto at = sessions_.find(id);
  return {at != sessions_.end() ? std::optional(at->second.info) : std::nullopt,
          {.index = index_of({subject::kind::session, std::string(id)})}};
}

consul::answer<std::vector<session_info>> store::sessions() const {
  consul::answer<std::vector<session_info>> out;
  for (const auto& [id, held] : sessions_) out.value.push_back(held.info);
  out.meta.index = index_of({subject::kind::sessions, {}});
  return out;
}

consul::answer<std::vector<session_info>> store::sessions_of(std::string_view node) const {
  consul::answer<std::vector<session_info>> out;
  const std::string key = sessions_key(node);
  const auto end = after_prefix(sessions_by_node_, key);
  for (auto at = from_prefix(sessions_by_node_, key); at != end; ++at)
    out.value.push_back(sessions_.find(at->second)->second.info);
  out.meta.index = index_of({subject::kind::node_sessions, std::string(node)});
  return out;
}

// --- Nodes

// The agent registers its node. If another client has registered a node of that name meanwhile, the node keeps its
// sessions.
void store::add_own_node() {
  own_node_returns_ = time_point::max();
  const std::string key = detail::lower_case(options_.node);
  touch_node(key, !nodes_.contains(key));
  const auto [at, is_new] = nodes_.try_emplace(key);
  const std::uint64_t created = is_new ? index_ : at->second.create_index;
  at->second = {options_.node, own_address, created, index_, true};
  node_index_ = index_;
}

std::optional<refusal> store::register_node(const std::string& name, const std::string& address, time_point now) {
  if (name.empty()) return refusal{500, "Must provide node"};
  if (address.empty()) return refusal{500, "Must provide address if SkipNodeUpdate is not set"};
  begin(now);
  const std::string key = detail::lower_case(name);
  const auto found = nodes_.find(key);
  const bool is_new = found == nodes_.end();
  const bool renamed = !is_new && found->second.name != name;
  const bool same_name = !renamed || detail::ways::node_names_have_no_case(options_.version);
  if (is_new || !same_name || found->second.address != address) {
    touch_node(key, is_new);
    node_info& node = nodes_.try_emplace(key, node_info{{}, {}, index_, 0, false}).first->second;
    node.name = name;
    node.address = address;
    node.modify_index = node_index_ = index_;
  }
  commit();
  return std::nullopt;
}

void store::deregister_node(std::string_view name, time_point now) {
  begin(now);
  const std::string key = detail::lower_case(name);
  if (nodes_.erase(key) != 0) {
    node_index_ = gone_index_ = index_;
    touch_node(key, true);
    if (key == detail::lower_case(options_.node)) own_node_returns_ = later(now, options_.node_returns_after);
    if (!breaks(defect::deregistration_ends_none))
      for (const session_info& session : sessions_of(name).value) close_session(session.id);
  }
  commit();
}

consul::answer<std::optional<node_info>> store::node(std::string_view name) const {
  const auto at = nodes_.find(detail::lower_case(name));
  return {at != nodes_.end() ? std::optional(at->second) : std::nullopt,
          {.index = index_of({subject::kind::node, std::string(name)})}};
}

consul::answer<std::vector<node_info>> store::nodes() const {
  consul::answer<std::vector<node_info>> out;
  for (const auto& [key, each] : nodes_) out.value.push_back(each);
  out.meta.index = index_of({subject::kind::nodes, {}});
  return out;
}

// --- Time, operators and accidents

void store::advance(time_point now) {
  if (now >= own_node_returns_) {
    begin(now);
    add_own_node();
    commit();
  }
  std::erase_if(lock_delays_, [now](const auto& each) { return each.second <= now; });
  if (now >= next_end_) {
    end_sessions_if([now](const lease& held) { return held.ends <= now; }, now);
    next_end_ = time_point::max();
    for (const auto& [id, held] : sessions_) next_end_ = std::min(next_end_, held.ends);
  }
  while (!graves_.empty() && graves_.front().due <= now) {
    std::erase_if(tombstones_, [this](const auto& each) { return each.second <= graves_.front().index; });
    graves_.erase(graves_.begin());
  }
}

store::time_point store::next_deadline() const {
  const time_point next = std::min(next_end_, own_node_returns_);
  return graves_.empty() ? next : std::min(next, graves_.front().due);
}

void store::restart_ttls(time_point now) {
  for (auto& [id, held] : sessions_)
    if (held.info.ttl != nanoseconds(0)) held.ends = later(now, 2 * held.info.ttl);
}

void store::expire_sessions(time_point now) {
  end_sessions_if([](const lease&) { return true; }, now);
}

void store::fail_node(time_point now) {
  end_sessions_if([](const lease& held) { return !held.info.node_checks.empty(); }, now);
}

void store::collect_tombstones() {
  tombstones_.clear();
  graves_.clear();
}

void store::restore(const store& image) {
  const std::uint64_t index = std::max(index_, image.index_);
  std::vector<watch_id> fired = std::move(fired_);
  for (const registered& watch : watches_) fired.push_back(watch.id);
  const watch_id last = last_watch_;
  *this = image;
  index_ = index;
  watches_.clear();
  fired_ = std::move(fired);
  last_watch_ = last;
}

// --- Blocking queries
//
// Consul keeps keys in a radix tree, with a node for each key and for each place where keys begin to differ. A write
// replaces all nodes from the root to the key, and wakes the queries that watch a replaced node. A query watches the
// last node that the search for its key or prefix reaches. For a missing key this is a node above other keys, so a
// change of a neighbour wakes the query. Before 1.10.9, and in 1.11.0 to 1.11.3, Consul then answers the query with the
// index of all keys.
//
// A key's path ends with a zero byte, so that no key's path is a prefix of another's.

namespace {

std::size_t common_size(std::string_view a, std::string_view b) noexcept {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

std::string path_of(std::string_view key) { return std::string(key) + '\0'; }

// The size of the longest prefix of the text with which some key's path begins.
template <class Map>
std::size_t known_size(const Map& map, std::string_view text) {
  std::size_t size = 0;
  auto at = map.lower_bound(text);
  if (at != map.end()) size = common_size(path_of(at->first), text);
  if (at != map.begin()) size = std::max(size, common_size(path_of(std::prev(at)->first), text));
  return size;
}

// The longest common prefix of the paths that begin with `beginning`.
template <class Map>
std::string common_path(const Map& map, std::string_view beginning) {
  const bool whole_key = beginning.ends_with('\0');
  const std::string_view prefix = whole_key ? beginning.substr(0, beginning.size() - 1) : beginning;
  const auto first = from_prefix(map, prefix);
  const auto end = after_prefix(map, prefix);
  if (whole_key || first == end) return std::string(beginning);
  const std::string path = path_of(first->first);
  return path.substr(0, common_size(path, path_of(std::prev(end)->first)));
}

// The node that a search for a path or a prefix reaches. `below_root` is true if all paths of the map have a common
// beginning in Consul, which the model leaves out. The search then never ends at the root.
template <class Map>
std::string node_at(const Map& map, std::string_view sought, bool below_root = false) {
  const std::size_t known = known_size(map, sought);
  return known == 0 && !below_root ? std::string() : common_path(map, sought.substr(0, known));
}

// True if the write of `key` replaces `node`. The key is about to be written, or has just been removed. With
// `comes_or_goes`, the key is not in the map.
template <class Map>
bool is_replaced(const Map& map, std::string_view node, std::string_view key, bool comes_or_goes,
                 bool below_root = false) {
  const std::string path = path_of(key);
  if (path.starts_with(node)) return true;
  if (!comes_or_goes) return false;
  // A new key may split the edge above the node. A removed key may leave the node as the only child of its parent, and
  // the two are then merged. In both cases the node is replaced, unless the root is split or merged.
  const std::size_t common = common_size(path, node);
  return (common > 0 || below_root) && common_path(map, node.substr(0, common)) == node;
}

}  // namespace

void store::touch(const std::string& key, bool comes_or_goes) {
  for (registered& watch : watches_) {
    if (watch.what.what != subject::kind::key && watch.what.what != subject::kind::prefix) continue;
    if (watch.leaf) {
      watch.fires = watch.fires || watch.place == key;
    } else if (watch.what.what == subject::kind::key && detail::ways::missing_is_no_news(options_.version)) {
      watch.fires = watch.fires || watch.what.name == key;
    } else if (is_replaced(entries_, watch.place, key, comes_or_goes)) {
      const bool beside = !key.starts_with(watch.what.name);
      watch.fires = watch.fires || !(beside && breaks(defect::sibling_wakes_nobody));
    }
  }
}

// The session is about to be created, or has just been removed. In the model, every other session wakes the watch of a
// missing session, which is more often than in Consul. See also `is_still_missing`.
void store::touch_session(const session_info& session) {
  for (registered& watch : watches_) {
    const bool one = watch.what.what == subject::kind::session && (!watch.leaf || watch.what.name == session.id);
    const bool of_node = watch.what.what == subject::kind::node_sessions &&
                         is_replaced(sessions_by_node_, watch.place, sessions_key(session.node) + session.id, true);
    if (one || of_node || watch.what.what == subject::kind::sessions) watch.fires = true;
  }
}

// The node is about to be written, or has just been removed. Before 1.13, a query for a missing node is woken only by
// that node itself, because the index of missing nodes is always 1.
void store::touch_node(const std::string& key, bool comes_or_goes) {
  for (registered& watch : watches_) {
    if (watch.what.what == subject::kind::nodes) watch.fires = true;
    if (watch.what.what != subject::kind::node) continue;
    const bool beside = !watch.leaf && detail::ways::nodes_have_indexes(options_.version) &&
                        is_replaced(nodes_, watch.place, key, comes_or_goes, true);
    if (beside || detail::lower_case(watch.what.name) == key) watch.fires = true;
  }
}

// An existing key, session or node is watched itself, not a node of the tree above it.
void store::place(registered& watch) const {
  const std::string& name = watch.what.name;
  switch (watch.what.what) {
    case subject::kind::key:
      watch.leaf = find(name) != nullptr;
      watch.place = watch.leaf ? name : node_at(entries_, path_of(name));
      return;
    case subject::kind::prefix:
      watch.place = node_at(entries_, name);
      return;
    case subject::kind::session:
      watch.leaf = sessions_.contains(name);
      return;
    case subject::kind::node_sessions:
      watch.place = node_at(sessions_by_node_, sessions_key(name));
      return;
    case subject::kind::node:
      watch.leaf = nodes_.contains(detail::lower_case(name));
      if (!watch.leaf) watch.place = node_at(nodes_, path_of(detail::lower_case(name)), true);
      return;
    case subject::kind::sessions:
    case subject::kind::nodes:  // a list of all sessions or nodes, whose watch fires at every change
      return;
  }
}

store::watch_id store::watch(subject what) {
  registered watch{++last_watch_, std::move(what), {}, false, false};
  place(watch);
  watches_.push_back(std::move(watch));
  return last_watch_;
}

void store::unwatch(watch_id id) {
  std::erase_if(watches_, [id](const registered& watch) { return watch.id == id; });
}

std::vector<store::watch_id> store::take_fired() { return std::exchange(fired_, {}); }

}  // namespace holdfast::testing
