#include "support/mini_consul.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::test {

using protocol::key_value;
using protocol::operation;
using protocol::verb;
using protocol::event::refusal;

std::string mini_consul::create_session(protocol::duration ttl, protocol::duration patience, protocol::time_point now) {
  std::string id = std::to_string(++last_session_);
  id = "session-" + std::string(id.size() < 4 ? 4 - id.size() : 0, '0') + id;
  sessions_[id] = {ttl + patience, now + ttl + patience};
  first_to_end_ = std::min(first_to_end_, now + ttl + patience);
  ++index_;
  return id;
}

bool mini_consul::renew_session(const std::string& id, protocol::time_point now) {
  const auto at = sessions_.find(id);
  if (at == sessions_.end()) return false;
  at->second.ends = now + at->second.life;
  return true;
}

void mini_consul::destroy_session(const std::string& id) {
  if (sessions_.erase(id) == 0) return;
  ++index_;
  std::vector<std::string> locked;
  for (const auto& [key, pair] : keys_)
    if (pair.session == id) locked.push_back(key);
  for (const std::string& key : locked) erase(key);
}

void mini_consul::expire_sessions(protocol::time_point now) {
  if (now < first_to_end_) return;
  first_to_end_ = protocol::never;
  std::vector<std::string> ended;
  for (const auto& [id, each] : sessions_) {
    if (each.ends <= now)
      ended.push_back(id);
    else
      first_to_end_ = std::min(first_to_end_, each.ends);
  }
  for (const std::string& id : ended) destroy_session(id);
}

mini_consul::txn_reply mini_consul::transact(const std::vector<operation>& operations) {
  auto keys_before = keys_;
  auto tombstones_before = tombstones_;
  ++index_;
  txn_reply reply;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    refusal why = refusal::conflict;
    if (!apply(operations[i], reply, why)) reply.refusals.push_back({i, why});
  }
  if (operations.size() > protocol::operations_max) reply.refusals.push_back({operations.size() - 1, refusal::other});
  reply.applied = reply.refusals.empty();
  if (!reply.applied) {
    reply.results.clear();
    keys_ = std::move(keys_before);
    tombstones_ = std::move(tombstones_before);
  }
  return reply;
}

bool mini_consul::apply(const operation& op, txn_reply& reply, refusal& why) {
  const key_value* found = get(op.key);
  switch (op.verb) {
    case verb::lock:
      if (!has_session(op.session)) {
        why = refusal::invalid_session;
        return false;
      }
      if (found && !found->session.empty() && found->session != op.session) return false;
      write(op.key, op.value, op.flags, &op.session);
      break;
    case verb::cas:
      if (!cas_always_fits && op.index != (found ? found->modify_index : 0)) return false;
      write(op.key, op.value, op.flags, nullptr);
      break;
    case verb::set:
      write(op.key, op.value, op.flags, nullptr);
      break;
    case verb::remove:
      erase(op.key);
      return true;
    case verb::check_session:
      if (!found || found->session != op.session) return false;
      break;
    case verb::check_index:
      if (!found || found->modify_index != op.index) return false;
      break;
    case verb::check_not_exists:
      return found == nullptr;
    case verb::get_tree:
      for (key_value& pair : list(op.key)) reply.results.push_back(std::move(pair));
      return true;
  }
  reply.results.push_back(*get(op.key));
  reply.results.back().value.clear();  // what was written is not echoed
  return true;
}

std::vector<key_value> mini_consul::list(std::string_view prefix) const {
  std::vector<key_value> found;
  for (auto at = keys_.lower_bound(prefix); at != keys_.end() && at->first.starts_with(prefix); ++at)
    found.push_back(at->second);
  return found;
}

std::uint64_t mini_consul::index_of(std::string_view prefix) const {
  std::uint64_t index = 1;
  for (auto at = keys_.lower_bound(prefix); at != keys_.end() && at->first.starts_with(prefix); ++at)
    index = std::max(index, at->second.modify_index);
  for (auto at = tombstones_.lower_bound(prefix); at != tombstones_.end() && at->first.starts_with(prefix); ++at)
    index = std::max(index, at->second);
  return index;
}

const key_value* mini_consul::get(const std::string& key) const {
  const auto at = keys_.find(key);
  return at == keys_.end() ? nullptr : &at->second;
}

void mini_consul::put(const std::string& key, std::string value, std::uint64_t flags) {
  ++index_;
  write(key, std::move(value), flags, nullptr);
}

void mini_consul::remove(const std::string& key) {
  ++index_;
  erase(key);
}

void mini_consul::remove_tree(const std::string& prefix) {
  ++index_;
  for (const key_value& pair : list(prefix)) erase(pair.key);
}

/// `lock` null: the key's session stays as it is.
void mini_consul::write(const std::string& key, std::string value, std::uint64_t flags, const std::string* lock) {
  const auto [at, is_new] = keys_.try_emplace(key);
  key_value& pair = at->second;
  const std::string session = lock ? *lock : pair.session;
  if (!is_new && pair.value == value && pair.flags == flags && pair.session == session) return;  // moves no index
  if (is_new) pair.create_index = index_;
  pair.key = key;
  pair.value = std::move(value);
  pair.flags = flags;
  pair.session = session;
  pair.modify_index = index_;
}

void mini_consul::erase(const std::string& key) {
  if (keys_.erase(key) != 0 && !forgets_deletions) tombstones_[key] = index_;
}

}  // namespace holdfast::test
