// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/slot_ledger.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace holdfast::protocol {

bool any_holds(const members& all) {
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return each.second.holds(); });
}

bool any_waits(const members& all) {
  return std::any_of(all.begin(), all.end(), [](const auto& each) { return each.second.waits(); });
}

slot_id slot_ledger::open() {
  const auto [id, s] = slots_.open();
  s->held = true;
  s->lost = false;
  s->revoked = false;
  s->members.clear();
  return id;
}

void slot_ledger::take(context& ctx, slot_id id, member& m) {
  erase_spare(m.id);
  free_member(ctx, m.gives_back);
  m.slot = id;
  find(id)->members.push_back(m.id);
  ++in_use_;
}

void slot_ledger::give_up(context& ctx, slot& s, slot_id id, members& all) {
  s.held = false;
  in_use_ -= static_cast<std::uint32_t>(s.members.size());
  s.not_free = static_cast<std::uint32_t>(s.members.size());
  for (const member_id each : s.members) {
    member& m = all[each];
    m.slot = slot_id::none;
    m.gives_back = id;
    m.idle_since = ctx.now();
    spares_.push_back(each);
  }
}

void slot_ledger::lose(context& ctx, slot_id id, members& all, loss_reason reason, failure why) {
  slot* s = find(id);
  if (!s) return;
  // If the grant was not accepted, other processes take the slot back, although its user may still use it.
  if (protects_slot(reason) &&
      std::any_of(s->members.begin(), s->members.end(), [&](member_id each) { return all[each].acceptance.is_open(); }))
    reason = loss_reason::not_accepted;
  if (mark_lost(*s, all)) ctx.act(action::lose{id, reason, std::move(why), {}, all[s->members.front()].session});
}

void slot_ledger::lose_all(context& ctx, members& all, loss_reason reason, const failure& why) {
  if (in_use_ == 0) return;
  slots_.for_each([&](slot_id id, slot& s) {
    if (s.held) lose(ctx, id, all, reason, why);
  });
}

void slot_ledger::report(context& ctx, const member& m, const members& all) {
  action::update news{m.slot, never, false};
  for (const member_id each : find(m.slot)->members) {
    news.deadline = std::min(news.deadline, all[each].deadline());
    news.suspect = news.suspect || all[each].is_suspect();
  }
  ctx.act(news);
}

void slot_ledger::revoke(context& ctx, const std::vector<std::string>& sessions, const members& all) {
  for (const std::string& session : sessions) {
    const member* const m = all.find(session);
    slot* const s = m ? find(m->slot) : nullptr;
    if (!s || !s->held || std::exchange(s->revoked, true)) continue;
    ctx.act(action::revoke{m->slot});
  }
}

bool slot_ledger::mark_lost(slot& s, members& all) {
  if (!s.held) return false;
  s.held = false;
  s.lost = true;
  for (const member_id each : s.members) all[each].lost = true;
  return true;
}

void slot_ledger::let_go(context& ctx, slot& s, slot_id id, members& all) {
  s.lost = false;
  slots_.close(id);
  in_use_ -= static_cast<std::uint32_t>(s.members.size());
  for (const member_id each : s.members) {
    member& m = all[each];
    m.slot = slot_id::none;
    m.idle_since = ctx.now();
    if (m.holds()) spares_.push_back(each);
  }
}

void slot_ledger::let_go_of_all(context& ctx, members& all) {
  slots_.for_each([&](slot_id id, slot& s) {
    if (s.lost) let_go(ctx, s, id, all);
  });
}

void slot_ledger::free_member(context& ctx, slot_id& gives_back, const failure* why) {
  if (gives_back == slot_id::none) return;
  const slot_id id = std::exchange(gives_back, slot_id::none);
  if (--find(id)->not_free != 0) return;
  slots_.close(id);
  given_back_at_ = ctx.now();
  ctx.act(action::released{id, why && why->code ? std::optional(*why) : std::nullopt});
}

void slot_ledger::drop(const member& m) {
  if (slot* const s = m.slot == slot_id::none ? nullptr : find(m.slot)) {
    std::erase(s->members, m.id);
    --in_use_;
    if (s->members.empty()) {
      s->lost = false;
      slots_.close(m.slot);
    }
  }
  erase_spare(m.id);
}

void slot_ledger::list_spares(const members& all) {
  spares_.clear();
  for (const auto& [id, m] : all)
    if (m.is_ready() && m.holds() && m.slot == slot_id::none) spares_.push_back(id);
}

}  // namespace holdfast::protocol
