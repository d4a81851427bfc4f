// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/convert.hpp"

#include <utility>

namespace holdfast::runtime {

static_assert(consul::txn_operations_max >= protocol::operations_max);
namespace {

protocol::event::refusal to_refusal(consul::txn_refusal reason) {
  using protocol::event::refusal;
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

protocol::event::outcome to_outcome(const error_code& ec, const consul::txn_reply& reply) {
  using protocol::event::outcome;
  if (!ec) return reply.applied ? outcome::applied : outcome::refused;
  return ec == condition::not_applied ? outcome::not_sent : outcome::unknown;
}

}  // namespace

protocol::event::txn_done txn_done(protocol::request_id id, const error_code& ec, consul::txn_reply reply,
                                   diagnostics details) {
  protocol::event::txn_done done{id, to_outcome(ec, reply)};
  done.results = std::move(reply.results);
  for (const consul::txn_error& each : reply.errors) done.refusals.push_back({each.operation, to_refusal(each.reason)});
  done.error = {ec, std::move(details)};
  return done;
}

protocol::event::prefix_listed prefix_listed(protocol::request_id id, const error_code& ec,
                                             consul::answer<std::vector<consul::kv_entry>> answer,
                                             diagnostics details) {
  return {id, std::move(answer.value), answer.meta.index, {ec, std::move(details)}, answer.meta.filtered_by_acls};
}

/// Consul reports a key that the token may not read as missing. This function reports it as permission_denied.
protocol::event::key_watched key_watched(protocol::request_id id, const error_code& ec,
                                         consul::answer<std::optional<consul::kv_entry>> answer, diagnostics details) {
  const bool is_hidden = !ec && answer.meta.filtered_by_acls;
  if (is_hidden) details.message = "the ACL token may not read the key";
  const error_code failed = is_hidden ? make_error_code(error::permission_denied) : ec;
  return {id, std::move(answer.value), {failed, std::move(details)}, answer.meta.index, answer.meta.wait};
}

protocol::event::node_seen node_seen(protocol::request_id id, const error_code& ec,
                                     const consul::answer<std::optional<consul::catalog_node>>& answer,
                                     diagnostics details) {
  return {id, answer.value ? answer.value->create_index : 0, {ec, std::move(details)}};
}

protocol::event::renewal renewal(const error_code& ec) {
  using protocol::event::renewal;
  return !ec ? renewal::renewed : ec == error::invalid_session ? renewal::gone : renewal::failed;
}

namespace {

using protocol::core_event;
namespace action = protocol::action;
namespace event = protocol::event;
using protocol::failure;
using maybe_answer = std::optional<core_event>;

// The function that could not make a request may have moved its strings out, but not its numbers.
maybe_answer answer_to(const action::create_session& a, failure why) {
  return event::session_created{a.member, {}, std::move(why)};
}
maybe_answer answer_to(const action::register_node&, failure why) { return event::node_registered{std::move(why)}; }
maybe_answer answer_to(const action::renew_session& a, failure why) {
  return event::session_renewed{a.member, event::renewal::failed, std::move(why)};
}
maybe_answer answer_to(const action::destroy_session& a, failure) { return event::session_destroyed{a.session, false}; }
maybe_answer answer_to(const action::send_txn& a, failure why) {
  return event::txn_done{a.id, event::outcome::unknown, {}, {}, std::move(why)};
}
maybe_answer answer_to(const action::list_prefix& a, failure why) {
  return event::prefix_listed{a.id, {}, 0, std::move(why)};
}
maybe_answer answer_to(const action::watch_key& a, failure why) { return event::key_watched{a.id, {}, std::move(why)}; }
maybe_answer answer_to(const action::read_node& a, failure why) { return event::node_seen{a.id, 0, std::move(why)}; }
maybe_answer answer_to(const action::stop_watch&, const failure&) { return {}; }
maybe_answer answer_to(const key_question&, const failure&) { return {}; }
maybe_answer answer_to(const prefix_question&, const failure&) { return {}; }
maybe_answer answer_to(const write_question&, const failure&) { return {}; }
maybe_answer answer_to(const end_question&, const failure&) { return {}; }
maybe_answer answer_to(const stop_reads&, const failure&) { return {}; }

}  // namespace

std::optional<core_event> not_made(const store_request& request, failure why) {
  return std::visit([&](const auto& each) { return answer_to(each, std::move(why)); }, request);
}

}  // namespace holdfast::runtime
