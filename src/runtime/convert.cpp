#include "runtime/convert.hpp"

#include <utility>

namespace holdfast::runtime {
namespace {

using protocol::event::outcome;
using protocol::event::refusal;

consul::txn_operation to_consul(protocol::operation&& op) {
  using consul::txn_operation;
  using protocol::verb;
  switch (op.verb) {
    case verb::lock:
      return txn_operation::lock(std::move(op.key), std::move(op.value), std::move(op.session), op.flags);
    case verb::unlock:
      return txn_operation::unlock(std::move(op.key), std::move(op.value), std::move(op.session), op.flags);
    case verb::check_session:
      return txn_operation::check_session(std::move(op.key), std::move(op.session));
    case verb::check_index:
      return txn_operation::check_index(std::move(op.key), op.index);
    case verb::check_not_exists:
      return txn_operation::check_not_exists(std::move(op.key));
    case verb::cas:
      return txn_operation::cas(std::move(op.key), std::move(op.value), op.index, op.flags);
    case verb::remove:
      return txn_operation::remove(std::move(op.key));
    case verb::remove_cas:
      return txn_operation::remove_cas(std::move(op.key), op.index);
    case verb::get:
      return txn_operation::get(std::move(op.key));
    case verb::get_tree:
      return txn_operation::get_tree(std::move(op.key));
  }
  return {};
}

refusal to_core(consul::txn_refusal reason) {
  switch (reason) {
    case consul::txn_refusal::conflict:
    case consul::txn_refusal::lock_held:
    case consul::txn_refusal::missing_key:
      return refusal::conflict;
    case consul::txn_refusal::lock_delay:
      return refusal::lock_delay;
    case consul::txn_refusal::invalid_session:
      return refusal::invalid_session;
    case consul::txn_refusal::permission_denied:
      return refusal::permission_denied;
    case consul::txn_refusal::other:
      break;
  }
  return refusal::other;
}

outcome to_outcome(const error_code& ec, const consul::txn_reply& reply) {
  if (!ec) return reply.applied ? outcome::applied : outcome::refused;
  return ec == condition::not_applied ? outcome::not_sent : outcome::unknown;
}

protocol::key_value to_core(consul::kv_entry&& entry) {
  return {std::move(entry.key), std::move(entry.value), entry.flags,     std::move(entry.session),
          entry.create_index,   entry.modify_index,     entry.lock_index};
}

}  // namespace

std::vector<consul::txn_operation> to_consul(std::vector<protocol::operation> operations) {
  std::vector<consul::txn_operation> result;
  result.reserve(operations.size());
  for (protocol::operation& op : operations) result.push_back(to_consul(std::move(op)));
  return result;
}

std::vector<protocol::key_value> to_core(std::vector<consul::kv_entry> entries) {
  std::vector<protocol::key_value> result;
  result.reserve(entries.size());
  for (consul::kv_entry& entry : entries) result.push_back(to_core(std::move(entry)));
  return result;
}

protocol::event::txn_done txn_done(protocol::request_id id, const error_code& ec, consul::txn_reply reply,
                                   diagnostics words) {
  protocol::event::txn_done done{id, to_outcome(ec, reply)};
  done.results = to_core(std::move(reply.results));
  for (const consul::txn_error& each : reply.errors) done.refusals.push_back({each.operation, to_core(each.reason)});
  done.error = {ec, std::move(words)};
  return done;
}

/// What the token may not read is left out of an answer. Then that is none: whoever stands there would be taken for
/// dead.
static protocol::failure failure_of(const error_code& ec, const consul::query_meta& meta, diagnostics words) {
  if (ec || !meta.filtered_by_acls) return {ec, std::move(words)};
  return {make_error_code(error::permission_denied), std::move(words)};
}

protocol::event::prefix_listed prefix_listed(protocol::request_id id, const error_code& ec,
                                             consul::answer<std::vector<consul::kv_entry>> answer, diagnostics words) {
  return {id, to_core(std::move(answer.value)), answer.meta.index, failure_of(ec, answer.meta, std::move(words))};
}

protocol::event::key_watched key_watched(protocol::request_id id, const error_code& ec,
                                         consul::answer<std::optional<consul::kv_entry>> answer, diagnostics words) {
  protocol::event::key_watched seen{id, {}, failure_of(ec, answer.meta, std::move(words)), answer.meta.index};
  if (answer.value) seen.pair = to_core(*std::move(answer.value));
  return seen;
}

protocol::event::renewal renewal(const error_code& ec) {
  using protocol::event::renewal;
  return !ec ? renewal::renewed : ec == error::invalid_session ? renewal::gone : renewal::failed;
}

}  // namespace holdfast::runtime
