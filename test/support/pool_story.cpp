// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/pool_story.hpp"
#include "protocol/pool/acceptance.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <sstream>
#include <utility>

#include "runtime/convert.hpp"

namespace holdfast::test {

using namespace protocol;
using namespace std::chrono_literals;

namespace {

const std::string lock_key = "p/.lock";

std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  std::vector<std::string> result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

template <class T>
T take(std::vector<T>& list) {
  BOOST_REQUIRE(!list.empty());
  T first = std::move(list.front());
  list.erase(list.begin());
  return first;
}

template <class T>
T take(std::optional<T>& one) {
  BOOST_REQUIRE(one.has_value());
  return std::exchange(one, std::nullopt).value();
}

failure because(error why) { return {make_error_code(why), {"because", {}, {}, {}}}; }

std::string text(const failure& f) { return f.code ? " " + f.code.message() : ""; }

}  // namespace

pool_options pool_story::usual(std::uint32_t limit) {
  pool_options o;
  o.prefix = "p/";
  o.lock_key = lock_key;
  o.description = "us";
  o.limit = limit;
  o.outage_grace = 0ms;
  o.session_idle_timeout = 60s;
  o.own_watch = o.own_watch_each = 0ms;  // a waiter watches the whole prefix at once
  o.watch_pause_each = 0ms;
  o.watch_delay = 5ms;
  o.own_entry_delay = 1000h;
  return o;
}

pool_options pool_story::usual_mutex() {
  pool_options o = usual();
  o.prefix = lock_key;
  o.form = record_form::session;
  return o;
}

pool_story::pool_story(pool_options options, std::uint64_t seed)
    : options_(options), entries_(entries_of(options)), pool_(std::move(options), seed) {}

pool_story::lines pool_story::tell(core_event e) {
  actions_.clear();
  pool_.step(std::move(e), now, actions_);
  for (const measurement& each : pool_.measured())
    if (const auto* const freed = std::get_if<slots_freed>(&each)) freed_by_proof += freed->count;
  BOOST_TEST((pool_.wake() > now), "the pool asks to be woken in the past");
  note_requests();
  lines result;
  for (const core_action& a : actions_) result.push_back(line(a));
  return result;
}

void pool_story::note_requests() {
  for (const core_action& a : actions_) {
    const std::size_t before = requests++;
    if (const auto* create = std::get_if<action::create_session>(&a))
      creates_.push_back(*create);
    else if (const auto* renew = std::get_if<action::renew_session>(&a))
      renewals_.push_back(*renew);
    else if (const auto* destroy = std::get_if<action::destroy_session>(&a))
      destroys_.push_back(*destroy);
    else if (const auto* list = std::get_if<action::list_prefix>(&a)) {
      std::optional<action::list_prefix>& open = list->wait == duration(0) ? read_ : watch_;
      BOOST_TEST(!open.has_value(), "one read and one watch at a time");
      open = *list;
    } else if (const auto* watch = std::get_if<action::watch_key>(&a)) {
      key_watches_.push_back(*watch);
      BOOST_TEST(key_watches_.size() <= 4u);
    } else if (const auto* node = std::get_if<action::read_node>(&a)) {
      BOOST_TEST(!node_read_.has_value(), "one read at a time");
      node_read_ = *node;
    } else if (const auto* stop = std::get_if<action::stop_watch>(&a)) {
      if (watch_ && watch_->id == stop->id)
        watch_.reset();
      else
        BOOST_TEST(std::erase_if(key_watches_, [&](const auto& each) { return each.id == stop->id; }) == 1u);
      requests = before;
    } else if (const auto* txn = std::get_if<action::send_txn>(&a)) {
      const bool accepts =
          txn->operations.back().verb == kv_verb::lock && txn->operations.back().key.ends_with(".accepted");
      std::optional<action::send_txn>& open = accepts ? acceptance_ : txn_;
      BOOST_TEST(!open.has_value(), "one transaction at a time");
      BOOST_TEST(txn->operations.size() <= operations_max);
      open = *txn;
    } else {
      requests = before;
    }
  }
}

pool_story::lines pool_story::acquire(std::uint64_t ticket, std::uint32_t count) {
  return tell(event::acquire{protocol::ticket{ticket}, {.count = count}});
}
pool_story::lines pool_story::try_acquire(std::uint64_t ticket, std::uint32_t count) {
  return tell(event::acquire{protocol::ticket{ticket}, {.count = count, .once = true}});
}
pool_story::lines pool_story::acquire_until(std::uint64_t ticket, time_point deadline) {
  return tell(event::acquire{protocol::ticket{ticket}, {.deadline = deadline}});
}
pool_story::lines pool_story::cancel(std::uint64_t ticket) { return tell(event::cancel{protocol::ticket{ticket}}); }
pool_story::lines pool_story::release(char slot) {
  return tell(event::release{slots_.at(static_cast<std::size_t>(slot - 'A'))});
}
pool_story::lines pool_story::close(bool revoke) { return tell(event::close{revoke}); }

pool_story::lines pool_story::after(duration d) {
  const time_point end = now + d;
  lines all;
  core_actions actions;
  while (pool_.wake() <= end) {
    now = pool_.wake();
    for (std::string& each : tell(event::tick{})) all.push_back(std::move(each));
    actions.insert(actions.end(), actions_.begin(), actions_.end());
  }
  now = end;
  actions_ = std::move(actions);
  return all;
}
pool_story::lines pool_story::jump(duration d) {
  now += d;
  return tell(event::tick{});
}

pool_story::lines pool_story::created() {
  return tell(event::session_created{take(creates_).member, consul.create_session(options_.ttl, now)});
}
pool_story::lines pool_story::create_fails(error why) {
  return tell(event::session_created{take(creates_).member, {}, because(why)});
}
pool_story::lines pool_story::renewed() {
  return tell(event::session_renewed{take(renewals_).member, event::renewal::renewed});
}
pool_story::lines pool_story::renewal_says_gone() {
  return tell(event::session_renewed{take(renewals_).member, event::renewal::gone, {}});
}
pool_story::lines pool_story::destroyed(bool certain) {
  const std::string session = take(destroys_).session;
  if (certain) consul.destroy_session(session, now);
  return tell(event::session_destroyed{session, certain});
}

pool_story::lines pool_story::listing(std::optional<action::list_prefix>& request) {
  return tell(consul.listed(take(request).id, options_.prefix));
}
pool_story::lines pool_story::listed() { return listing(read_); }
pool_story::lines pool_story::node_read() {
  const action::read_node asked = take(node_read_);
  return tell(may_read_nodes ? consul.node_seen(asked.id, asked.node) : event::node_seen{asked.id});
}
pool_story::lines pool_story::watched() { return listing(watch_); }
pool_story::lines pool_story::key_watched() {
  const action::watch_key watch = take(key_watches_);
  return tell(consul.key_seen(watch.id, watch.key));
}
pool_story::lines pool_story::key_watched_in(duration wait) {
  const action::watch_key watch = take(key_watches_);
  event::key_watched seen = consul.key_seen(watch.id, watch.key);
  seen.wait = wait;
  return tell(std::move(seen));
}
pool_story::lines pool_story::key_watch_fails(error why) {
  return tell(event::key_watched{take(key_watches_).id, {}, because(why)});
}
pool_story::lines pool_story::watch_says(std::vector<kv_entry> entries, std::uint64_t at) {
  const request_id id = take(watch_).id;
  return tell(event::prefix_listed{id, std::move(entries), at, {}});
}
pool_story::lines pool_story::read_fails(error why) {
  return tell(event::prefix_listed{take(read_).id, {}, 0, because(why)});
}
pool_story::lines pool_story::read_filtered() { return tell(event::prefix_listed{take(read_).id, {}, 9, {}, true}); }
pool_story::lines pool_story::watch_fails(error why) {
  return tell(event::prefix_listed{take(watch_).id, {}, 0, because(why)});
}

pool_story::lines pool_story::done() {
  const action::send_txn txn = take(txn_);
  auto reply = reply_ ? *std::exchange(reply_, std::nullopt) : consul.transact(txn.operations, now);
  return tell(runtime::txn_done(txn.id, {}, std::move(reply), {}));
}
pool_story::lines pool_story::refused(std::vector<event::refused_operation> refusals) {
  return tell(event::txn_done{take(txn_).id, event::outcome::refused, {}, std::move(refusals), {}});
}
pool_story::lines pool_story::not_sent(error why) {
  return tell(event::txn_done{take(txn_).id, event::outcome::not_sent, {}, {}, because(why)});
}
pool_story::lines pool_story::unknown(error why) {
  late_ = take(txn_);
  return tell(event::txn_done{late_->id, event::outcome::unknown, {}, {}, because(why)});
}
bool pool_story::applied_late() { return consul.transact(take(late_).operations, now).applied; }

pool_story::lines pool_story::listed_late(event::prefix_listed then) {
  then.id = take(read_).id;
  return tell(std::move(then));
}

void pool_story::apply_now() {
  BOOST_REQUIRE(txn_.has_value());
  reply_ = consul.transact(txn_->operations, now);
}

void pool_story::answer_reads_and_sessions() {
  for (bool any = true; any;) {
    any = true;
    if (!creates_.empty())
      created();
    else if (!renewals_.empty())
      renewed();
    else if (!destroys_.empty())
      destroyed();
    else if (read_)
      listed();
    else if (node_read_)
      node_read();
    else
      any = false;
  }
}
bool pool_story::answer_all() {
  const std::size_t before = requests;
  answer_reads_and_sessions();
  const bool open = txn_.has_value();
  if (open) done();
  return open || requests != before;
}

pool_story::lines pool_story::acceptance_done() {
  const action::send_txn txn = take(acceptance_);
  return tell(runtime::txn_done(txn.id, {}, consul.transact(txn.operations, now), {}));
}
pool_story::lines pool_story::run(bool writes) {
  lines all;
  const auto is_due = [this](testing::subject::kind what, const std::string& key, std::uint64_t index) {
    return consul.store.index_of({what, key}) > index;
  };
  for (int i = 0; i < 200; ++i) {
    const auto due = std::find_if(key_watches_.begin(), key_watches_.end(), [&](const action::watch_key& each) {
      return is_due(testing::subject::kind::key, each.key, each.index);
    });
    lines some;
    if (!creates_.empty()) {
      some = created();
    } else if (!renewals_.empty()) {
      some = renewed();
    } else if (!destroys_.empty()) {
      some = destroyed();
    } else if (due != key_watches_.end()) {
      std::rotate(key_watches_.begin(), due, due + 1);
      some = key_watched();
    } else if (watch_ && is_due(testing::subject::kind::prefix, options_.prefix, watch_->index)) {
      some = watched();
    } else if (read_) {
      some = listed();
    } else if (node_read_) {
      some = node_read();
    } else if (writes && txn_) {
      some = done();
    } else {
      break;
    }
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string pool_story::others_join(std::uint64_t flags) {
  const std::string session = consul.create_session(1h, now);
  consul.transact({{kv_verb::lock, entries_ + session, "other", flags, 0, session}}, now);
  return name(session);
}
std::string pool_story::others_join_and_accept(std::uint64_t flags, std::string_view description) {
  const std::string session = consul.create_session(1h, now);
  const std::string text =
      with_stamp(description, 1h, entry_lease{default_session_ttl, 1500ms, default_session_node, true});
  consul.transact({{kv_verb::lock, entries_ + session, text, flags, 0, session}}, now);
  return name(session);
}
std::string pool_story::go_joins() {
  const std::string session = consul.create_session(1h, now);
  consul.transact({{kv_verb::lock, entries_ + session, "go", semaphore_flags, 0, session}}, now);
  return name(session);
}
std::string pool_story::go_takes() {
  const std::string session = consul.create_session(1h, now);
  BOOST_TEST(consul.transact({{kv_verb::lock, lock_key, "go", mutex_flags, 0, session}}, now).applied);
  return name(session);
}
void pool_story::go_lets_go(const std::string& session) {
  BOOST_TEST(consul.transact({{kv_verb::unlock, lock_key, "go", mutex_flags, 0, real(session)}}, now).applied);
}
void pool_story::leaves(const std::string& session) { consul.remove(entries_ + real(session), now); }

void pool_story::record_becomes(std::string_view holders, std::uint32_t limit, std::uint64_t flags) {
  lock_record record{record_form::map, limit == 0 ? options_.limit : limit, {}};
  for (const std::string& each : words(holders)) record.add(real(each));
  consul.put(lock_key, format(record), flags, now);
}
void pool_story::others_grant(std::string_view holders, std::string_view granted, std::string_view next,
                              std::optional<std::uint32_t> number) {
  const snapshot seen = standing();
  succession_view who;
  who.limit = options_.limit;
  who.number = number;
  for (const std::string& each : words(next)) who.next.push_back(seen.find(real(each)));
  lock_record record{seen.record.form, options_.limit, {}};
  for (const std::string& each : words(holders)) record.add(real(each));
  std::vector<kv_operation> list = rewrite(lock_key, seen, record, "other");
  for (const std::string& each : words(granted)) {
    const std::optional<kv_entry> entry = consul.get(entries_ + real(each));
    BOOST_REQUIRE(entry.has_value());
    const bool is_provisional = acceptance_of(contender{real(each), entry->value, entry->flags, 0, 0}).has_value();
    list.push_back({kv_verb::cas, entry->key, with_succession(entry->value, who),
                    next_grant_flags(entry->flags, is_provisional), entry->modify_index});
    if (number) list.push_back({kv_verb::lock, number_key(*number), "other", mutex_flags, 0, real(each)});
  }
  BOOST_TEST(consul.transact(list, now).applied);
}

void pool_story::order(const std::function<instruction(const inspection&)>& what) {
  const auto seen = make_inspection(entries_, lock_key, consul.list(options_.prefix), 0);
  BOOST_REQUIRE(seen.has_value());
  const instruction next = what(*seen);
  BOOST_TEST(!next.refused, next.refused.message());
  if (!next.session.empty()) consul.destroy_session(next.session, now);
  if (!next.operations.empty()) BOOST_TEST(consul.transact(next.operations, now).applied);
}

std::string pool_story::value() const {
  const std::optional<kv_entry> pair = consul.get(lock_key);
  return pair ? pair->value : "";
}
std::string pool_story::record() const {
  const snapshot seen = standing();
  if (seen.lock_index == 0) return "none";
  std::string holders;
  for (const std::string& each : seen.record.holders) holders += (holders.empty() ? "" : " ") + name(each);
  return "{" + holders + "}";
}
std::string pool_story::entries() const {
  const snapshot seen = standing();
  std::string sessions;
  for (const contender& each : seen.contenders) sessions += (sessions.empty() ? "" : " ") + name(each.session);
  return sessions;
}
snapshot pool_story::standing() const {
  auto seen = make_snapshot(entries_, lock_key, consul.list(options_.prefix), 0, options_.form);
  BOOST_REQUIRE(seen.has_value());
  return *std::move(seen);
}
std::uint64_t pool_story::index() const {
  const std::optional<kv_entry> pair = consul.get(lock_key);
  return pair ? pair->modify_index : 0;
}

std::string pool_story::real(std::string_view short_name) const {
  return core_consul::session_id(std::stoull(std::string(short_name.substr(1))));
}
std::string pool_story::name(std::string_view session) const {
  if (session.starts_with('.')) return std::string(session);
  if (session.ends_with(core_consul::session_tail)) {
    session.remove_suffix(core_consul::session_tail.size());
    session.remove_prefix(std::min(session.find_first_not_of('0'), session.size()));
  }
  return "s" + std::string(session);
}
std::string pool_story::name(slot_id slot) {
  auto at = std::find(slots_.begin(), slots_.end(), slot);
  if (at == slots_.end()) at = slots_.insert(at, slot);
  return std::string(1, static_cast<char>('A' + (at - slots_.begin())));
}

std::string pool_story::operations(const std::vector<kv_operation>& list) const {
  std::string all;
  for (const kv_operation& op : list) {
    const bool is_key = op.key == lock_key;
    std::string_view rest = std::string_view(op.key).substr(std::min(entries_.size(), op.key.size()));
    const bool is_acceptance = rest.ends_with(".accepted");
    if (is_acceptance) rest.remove_suffix(std::string_view(".accepted").size());
    const std::string who = name(rest);
    std::string one;
    switch (op.verb) {
      case kv_verb::lock:
        if (who.starts_with(".slot/")) {
          one = "number " + who.substr(6) + " " + name(op.session);
          if (op.value != options_.description) one += " " + op.value;
          if (op.flags != mutex_flags) one += " (wrongly)";
          break;
        }
        if (is_acceptance) {
          one = "accept " + name(op.session);
          break;
        }
        if (is_key) {
          one = "take " + name(op.session) + " " + op.value + (op.flags == mutex_flags ? "" : " (wrongly)");
          break;
        }
        one = "lock " + who;
        if (op.key != entries_ + op.session || parse_entry_value(op.value).description != options_.description ||
            op.flags != (contender_magic | (options_.numbered ? numbered_flag : 0)))
          one += " (wrongly)";
        break;
      case kv_verb::unlock:
        if (who.starts_with(".slot/")) {
          one = "unnumber " + who.substr(6) + " " + name(op.session) + (op.flags == mutex_flags ? "" : " (wrongly)");
          break;
        }
        one = "let go " + name(op.session) + " " + op.value + (is_key && op.flags == mutex_flags ? "" : " (wrongly)");
        break;
      case kv_verb::check_session:
        one = "wrong";
        break;
      case kv_verb::check_index:
        one = is_key ? "if @" + std::to_string(op.index) : "if " + who + " @" + std::to_string(op.index);
        break;
      case kv_verb::check_not_exists:
        one = is_key ? "if none" : is_acceptance ? "if not accepted " + who : "wrong";
        break;
      case kv_verb::cas: {
        if (!is_key) {
          if (is_given_back(op.flags)) {
            one = "return " + who + " @" + std::to_string(op.index);
            break;
          }
          const std::string_view description = description_in(op.value);
          one = "grant " + who + " " + std::string(description) + " @" + std::to_string(op.index) + " +" +
                std::to_string(grants_in(op.flags));
          if (const auto after = succession_in(op.value, description)) {
            if (!after->next.empty()) one += " next";
            for (const contender& each : after->next) one += " " + name(each.session);
            if (after->behind != 0) one += " and " + std::to_string(after->behind);
            if (after->number) one += " number " + std::to_string(*after->number);
          }
          break;
        }
        const auto record = parse_lock_record(op.value);
        if (!record) {
          one = "cas nonsense";
          break;
        }
        one = "cas @" + std::to_string(op.index) + " {";
        for (const std::string& each : record->holders) one += (one.back() == '{' ? "" : " ") + name(each);
        one += "}";
        if (record->limit != options_.limit) one += " limit " + std::to_string(record->limit);
        if (record->closed) one += " closed";
        for (const std::string& each : record->revoked) one += " revoked " + name(each);
        if (record->form != record_form::map) one += " as a list";
        if (op.flags != semaphore_flags) one += " flags " + std::to_string(op.flags);
        break;
      }
      case kv_verb::remove:
        one = is_acceptance ? "unaccept " + who : "remove " + who;
        break;
      case kv_verb::remove_cas:
        one = "remove " + who + " @" + std::to_string(op.index);
        break;
      case kv_verb::get_tree:
        one = op.key == options_.prefix ? "tree" : "look";
        break;
      case kv_verb::get:
        one = is_key ? "look" : "wrong";
        break;
      case kv_verb::set:
      case kv_verb::remove_tree:
        one = "wrong";  // the pool guards all of its writes
        break;
    }
    all += (all.empty() ? " " : " | ") + one;
  }
  return all;
}

std::string pool_story::line(const core_action& a) {
  struct {
    pool_story& story;
    static std::string number(ticket t) { return std::to_string(static_cast<std::uint64_t>(t)); }
    std::string operator()(const action::create_session& x) const {
      return "create m" + std::to_string(static_cast<std::uint64_t>(x.member));
    }
    std::string operator()(const action::register_node&) const { return "register node"; }
    std::string operator()(const action::renew_session& x) const { return "renew " + story.name(x.session); }
    std::string operator()(const action::destroy_session& x) const { return "destroy " + story.name(x.session); }
    std::string operator()(const action::send_txn& x) const {
      return "txn #" + std::to_string(x.id) + ":" + story.operations(x.operations);
    }
    std::string operator()(const action::list_prefix& x) const {
      if (x.wait == duration(0) && x.index == 0) return "read #" + std::to_string(x.id);
      return "watch #" + std::to_string(x.id) + " from " + std::to_string(x.index);
    }
    std::string operator()(const action::watch_key& x) const {
      const std::string what =
          x.key == lock_key ? "record" : story.name(std::string_view(x.key).substr(story.entries_.size()));
      if (x.wait == duration(0) && x.index == 0) return "read #" + std::to_string(x.id) + " " + what;
      return "watch #" + std::to_string(x.id) + " " + what + " from " + std::to_string(x.index);
    }
    std::string operator()(const action::read_node& x) const {
      return "read #" + std::to_string(x.id) + " node " + x.node;
    }
    std::string operator()(const action::stop_watch& x) const { return "stop #" + std::to_string(x.id); }
    std::string operator()(const action::watch_makers& x) const { return x.on ? "watch makers" : "no makers"; }
    std::string operator()(const action::forget_session& x) const { return "forget " + story.name(x.session); }
    std::string operator()(const action::grant& x) const {
      std::string text = "grant t" + number(x.ticket) + " " + story.name(x.slot) + " " + x.token.to_string();
      for (const std::uint32_t each : x.numbers) text += " number " + std::to_string(each);
      return text;
    }
    std::string operator()(const action::deny& x) const { return "deny t" + number(x.ticket); }
    std::string operator()(const action::fail& x) const { return "fail t" + number(x.ticket) + text(x.error); }
    std::string operator()(const action::released& x) const {
      return "released " + story.name(x.slot) + text(x.error.value_or(failure()));
    }
    std::string operator()(const action::lose& x) const {
      return "lose " + story.name(x.slot) + " " + std::string(to_string(x.reason));
    }
    std::string operator()(const action::revoke& x) const { return "revoke " + story.name(x.slot); }
    std::string operator()(const action::update& x) const {
      return "update " + story.name(x.slot) + (x.suspect ? " suspect" : "");
    }
    std::string operator()(const action::closed& x) const { return "closed" + text(x.error); }
    std::string operator()(const action::note&) const { return "note"; }
    std::string operator()(const action::ask_alive&) const { return "ask"; }
  } describe{*this};
  return std::visit(describe, a);
}

void pool_story::look(std::uint64_t ticket, std::uint32_t count) {
  acquire(ticket, count);
  listed();
}
void pool_story::come(std::uint64_t ticket, std::uint32_t count) {
  acquire(ticket, count);
  run();
}
void pool_story::go(char slot) {
  release(slot);
  run();
}
void pool_story::ask(std::uint64_t ticket, std::uint32_t count) {
  look(ticket, count);
  while (!creates_.empty()) created();
}
void pool_story::hold(std::uint64_t ticket, std::uint32_t count) {
  ask(ticket, count);
  done();
}
pool_story::lines pool_story::go_on(duration d) {
  lines all = after(d);
  append(all, run());
  return all;
}

std::size_t times(const pool_story::lines& list, std::string_view begin) {
  const auto is_one = [&](const std::string& each) { return each.starts_with(begin); };
  return static_cast<std::size_t>(std::count_if(list.begin(), list.end(), is_one));
}

void append(pool_story::lines& list, const pool_story::lines& more) {
  list.insert(list.end(), more.begin(), more.end());
}

void check_step(const pool_story::lines& found, const pool_story::lines& expected, int line) {
  const auto joined = [](const pool_story::lines& list) {
    std::string all;
    for (const std::string& each : list) all += (all.empty() ? "\"" : ", \"") + each + "\"";
    return all;
  };
  BOOST_TEST(found == expected, "line " << line << ": " << joined(found) << " instead of " << joined(expected));
}

}  // namespace holdfast::test
