#include "protocol/core.hpp"

#include <utility>

namespace holdfast::protocol {

void core::create(own_session& s) {
  s.id = member_id{++last_member_};
  s.asked_at = now_;
  act(action::create_session{s.id});
}

void core::created(own_session& s, std::string session, protocol::lease fresh) {
  s.session = std::move(session);
  s.lease = fresh;
  s.lease.extend(s.asked_at, random_);
}

bool core::registers_node(own_session& s, const failure& why, std::string_view node) {
  if (why.code != error::missing_node || node.empty() || std::exchange(s.had_node, true)) return false;
  s.awaits_node = true;
  s.asked_at = now_;
  if (!std::exchange(registering_, true)) act(action::register_node{});
  return true;
}

void core::create_again(own_session& s) {
  s.awaits_node = false;
  s.asked_at = now_;
  act(action::create_session{s.id});
}

failure core::with_rules(failure why, std::string_view node) {
  if (why.code != error::permission_denied || node.empty()) return why;
  const std::string rule = " \"" + std::string(node) + "\" { policy = \"write\" }";
  why.details.message += "; the token needs the ACL rule session" + rule +
                         ", and where nobody has registered that node yet, node" + rule + ", too";
  return why;
}

void core::renew_when_due(own_session& s) {
  if (!due(s.lease.renew_at())) return;
  s.asked_at = now_;
  s.lease.asked();
  act(action::renew_session{s.id, s.session});
}

bool core::renewed(own_session& s, event::session_renewed& e) {
  s.not_renewed = std::move(e.error);
  if (e.outcome != event::renewal::renewed) s.lease.failed(now_, random_);
  if (e.outcome == event::renewal::renewed && now_ < s.lease.deadline()) s.lease.extend(s.asked_at, random_);
  return e.outcome != event::renewal::gone;
}

failure core::why_expired(const own_session& s) const {
  if (s.not_renewed.code) return s.not_renewed;
  return {make_error_code(error::timed_out),
          {"no renewal was answered in time: Consul was silent, or this process was", s.session, {}, {}}};
}

bool core::pursue(ending_session& s, const std::string& session) {
  if (due(s.until)) return false;
  if (!s.asking && due(s.attempts.retry_at())) {
    s.asking = true;
    act(action::destroy_session{session});
  }
  return true;
}

void core::not_destroyed(ending_session& s) {
  s.asking = false;
  s.attempts.failed({}, now_, random_);
}

}  // namespace holdfast::protocol
