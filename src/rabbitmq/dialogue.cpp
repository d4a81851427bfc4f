// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/dialogue.hpp"

#include <algorithm>
#include <holdfast/version.hpp>
#include <type_traits>
#include <utility>
#include <variant>

#include "protocol/base/invariant.hpp"
#include "rabbitmq/reply_codes.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

constexpr std::size_t server_text_max = 512;
constexpr std::size_t no_answer = std::variant_size_v<method>;

// The reply codes of AMQP 0-9-1 that this client tells apart.
constexpr std::uint16_t success = 200;
constexpr std::uint16_t connection_forced = 320;

template <class Method, std::size_t At = 0>
constexpr std::size_t index_of() {
  if constexpr (std::is_same_v<std::variant_alternative_t<At, method>, Method>) {
    return At;
  } else {
    return index_of<Method, At + 1>();
  }
}

/// Returns the index of the method that answers, or `no_answer`.
std::size_t answer_to(const method& what) {
  return std::visit(
      []<class Sent>(const Sent&) -> std::size_t {
        if constexpr (std::is_same_v<Sent, queue_declare>) return index_of<queue_declare_ok>();
        if constexpr (std::is_same_v<Sent, queue_purge>) return index_of<queue_purge_ok>();
        if constexpr (std::is_same_v<Sent, queue_delete>) return index_of<queue_delete_ok>();
        if constexpr (std::is_same_v<Sent, basic_qos>) return index_of<basic_qos_ok>();
        if constexpr (std::is_same_v<Sent, basic_consume>) return index_of<basic_consume_ok>();
        if constexpr (std::is_same_v<Sent, basic_cancel>) return index_of<basic_cancel_ok>();
        if constexpr (std::is_same_v<Sent, basic_get>) return index_of<basic_get_ok>();
        if constexpr (std::is_same_v<Sent, confirm_select>) return index_of<confirm_select_ok>();
        return no_answer;
      },
      what);
}

/// The front of a broker's text, without control characters: it is shown to people.
std::string readable(std::string_view text) {
  std::string shown(text.substr(0, server_text_max));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return shown;
}

error code_of(const refusal& why) {
  if (why.code == access_refused) return error::permission_denied;
  if (why.code == precondition_failed) return error::not_a_semaphore;
  if (why.code == not_allowed)
    return why.text.find("limit") == std::string::npos ? error::permission_denied : error::too_many_requests;
  return why.code == connection_forced || why.code == success ? error::connection_lost : error::server_error;
}

bool names(std::string_view mechanisms, std::string_view wanted) {
  while (!mechanisms.empty()) {
    const std::string_view each = mechanisms.substr(0, mechanisms.find(' '));
    if (each == wanted) return true;
    mechanisms.remove_prefix(std::min(each.size() + 1, mechanisms.size()));
  }
  return false;
}

}  // namespace

failure failure_of(const refusal& why, std::string message) {
  return {code_of(why), {std::move(message), {}, std::to_string(why.code) + ' ' + readable(why.text), {}}};
}

dialogue::dialogue(terms how) : terms_(std::move(how)) {}

dialogue::channel* dialogue::find(std::uint16_t number) {
  const auto at = channels_.find(number);
  return at == channels_.end() ? nullptr : &at->second;
}

// --- What comes in.

void dialogue::receive(std::string_view bytes) {
  while (phase_ != phase::ended && !bytes.empty()) {
    std::optional<frame> found;
    if (reader_.read(bytes, found)) {
      malformed(reader_.cause());
      return;
    }
    if (found && !take(*found)) return;
  }
}

bool dialogue::malformed(std::string_view cause) {
  end({error::malformed_reply, {"the broker's answer is not as AMQP has it: " + std::string(cause), {}, {}, {}}});
  return false;
}

bool dialogue::take(const frame& f) {
  switch (f.type) {
    case frame_type::heartbeat:
      return true;
    case frame_type::method:
      return take_method(f);
    case frame_type::header:
    case frame_type::body:
      return phase_ == phase::closing || take_content(f);
  }
  return malformed("a frame has an unknown type");
}

bool dialogue::take_method(const frame& f) {
  const bool is_before = phase_ == phase::greeting || phase_ == phase::tuning;
  method m;
  std::string_view cause;
  if (decode_method(f, is_before ? decoder::client_before_tune_ok : decoder::client, m, cause)) return malformed(cause);
  if (f.channel == 0) return on_connection(m);
  if (phase_ == phase::closing) return true;
  channel* const its = phase_ == phase::open ? find(f.channel) : nullptr;
  if (!its) return malformed("a method has a channel that is not open");
  if (its->incoming) return malformed("a method stands within a message");
  return on_channel(f.channel, *its, m);
}

bool dialogue::take_content(const frame& f) {
  channel* const its = find(f.channel);
  if (!its || !its->incoming) return malformed("a message has no method");
  std::string_view cause;
  if (its->incoming->content.take(f, cause)) return malformed(cause);
  if (its->incoming->content.is_complete()) message_complete(*its);
  if (phase_ == phase::open) complete_if_done(f.channel, *its);
  return phase_ != phase::ended;
}

bool dialogue::on_connection(method& m) {
  if (auto* const close = std::get_if<connection_close>(&m)) {
    on_close(*close);
    return false;
  }
  if (phase_ == phase::closing) {
    if (std::holds_alternative<connection_close_ok>(m)) end(why_);
    return phase_ != phase::ended;
  }
  if (auto* const start = std::get_if<connection_start>(&m); start && phase_ == phase::greeting)
    return on_start(*start);
  if (auto* const tune = std::get_if<connection_tune>(&m); tune && phase_ == phase::tuning) return on_tune(*tune);
  if (std::holds_alternative<connection_open_ok>(m) && phase_ == phase::opening) {
    phase_ = phase::open;
    if (listener_.opened) listener_.opened();
    return phase_ != phase::ended;
  }
  const bool is_alarm = std::holds_alternative<connection_blocked>(m);
  if (phase_ == phase::open && (is_alarm || std::holds_alternative<connection_unblocked>(m))) {
    if (std::exchange(is_blocked_, is_alarm) != is_alarm) on_alarm(is_alarm);
    return phase_ != phase::ended;
  }
  return malformed("the broker has sent a method of the connection that nobody asked for");
}

void dialogue::on_alarm(bool is_on) {
  if (listener_.blocked) listener_.blocked(is_on);
  if (!is_on) return;
  std::vector<std::function<void()>> told;  // a user may open a channel, or end the dialogue
  told.reserve(channels_.size());
  for (const auto& [number, c] : channels_) told.push_back(c.user.blocked);
  for (const auto& each : told)
    if (each && phase_ == phase::open) each();
}

bool dialogue::on_start(const connection_start& m) {
  if (m.version_major != 0 || m.version_minor != 9) return malformed("the broker does not speak AMQP 0-9-1");
  if (!names(m.mechanisms, terms_.how.mechanism)) {
    end({error::permission_denied, {"the broker does not offer a login by " + terms_.how.mechanism, {}, {}, {}}});
    return false;
  }
  broker_ = m.properties;
  connection_start_ok answer;
  answer.properties = {"holdfast", HOLDFAST_VERSION_STRING, terms_.connection_name};
  answer.mechanism = terms_.how.mechanism;
  answer.response = std::exchange(terms_.how.response, {});
  if (append_method(out_, 0, answer)) {
    end({error::bad_request, {"the login does not fit into a frame", {}, {}, {}}});
    return false;
  }
  phase_ = phase::tuning;
  return true;
}

bool dialogue::on_tune(const connection_tune& m) {
  tuned_ = negotiated(m, {channels_wanted, frame_bytes_wanted, terms_.heartbeat});
  reader_.set_limits({tuned_.frame_max, content_header_least, body_bytes_kept});
  if (append_method(out_, 0, tuned_) || append_method(out_, 0, connection_open{terms_.virtual_host})) {
    end({error::bad_request, {"the virtual host does not fit into a frame", {}, {}, {}}});
    return false;
  }
  phase_ = phase::opening;
  return true;
}

void dialogue::on_close(const connection_close& m) {
  append_own(0, connection_close_ok{});
  const bool is_login = phase_ == phase::tuning || phase_ == phase::opening;
  end(failure_of({m.reply_code, m.reply_text},
                 is_login ? "the broker has refused the login" : "the broker has closed the connection"));
}

bool dialogue::on_channel(std::uint16_t number, channel& c, method& m) {
  if (c.at != stage::open) return on_opening(number, c, m);
  if (auto* const close = std::get_if<channel_close>(&m)) {
    on_channel_close(number, c, *close);
    return phase_ != phase::ended;
  }
  if (auto* const cancel = std::get_if<basic_cancel>(&m); cancel && c.consumes) {
    c.consumes = false;
    const auto stopped = c.user.stopped;
    if (stopped) stopped({0, "the queue was deleted"});
    return phase_ != phase::ended;
  }
  if (auto* const delivery = std::get_if<basic_deliver>(&m); delivery && c.consumes) {
    c.incoming = message{};  // clang 14 takes no emplace() of a nested class with default values
    c.incoming->delivery = std::move(*delivery);
    return true;
  }
  if (!c.sent) return malformed("the broker has sent a method that nobody asked for");
  const bool is_good = on_answer(c, m);
  if (is_good) complete_if_done(number, c);
  return phase_ != phase::ended;
}

/// The answers to `send_opening`.
bool dialogue::on_opening(std::uint16_t number, channel& c, const method& m) {
  const bool is_expected = c.at == stage::opening ? std::holds_alternative<channel_open_ok>(m)
                                                  : std::holds_alternative<confirm_select_ok>(m);
  if (!is_expected) return malformed("the broker has sent another answer than that to the opening of a channel");
  c.at = c.at == stage::opening && c.has_confirms ? stage::selecting : stage::open;
  send_next(number, c);
  return phase_ != phase::ended;
}

bool dialogue::on_answer(channel& c, const method& m) {
  request& its = *c.sent;
  if (auto* const gone = std::get_if<basic_return>(&m)) return on_return(c, *gone);
  if (auto* const ack = std::get_if<basic_ack>(&m)) return on_confirm(c, ack->delivery_tag, ack->multiple);
  if (auto* const nack = std::get_if<basic_nack>(&m)) return on_confirm(c, nack->delivery_tag, nack->multiple);
  const std::size_t answered = its.so_far.answered;
  const bool is_empty = std::holds_alternative<basic_get_empty>(m);
  const std::size_t kind = is_empty ? index_of<basic_get_ok>() : m.index();
  if (answered == its.expected.size() || its.expected[answered] != kind)
    return malformed("the broker has sent another answer than the one that was asked for");
  ++its.so_far.answered;
  if (const auto* const declared = std::get_if<queue_declare_ok>(&m)) its.so_far.messages = declared->message_count;
  if (std::holds_alternative<basic_consume_ok>(m)) c.consumes = true;
  if (std::holds_alternative<basic_cancel_ok>(m)) c.consumes = false;
  if (std::holds_alternative<basic_get_ok>(m)) c.incoming = message{};
  return true;
}

bool dialogue::on_return(channel& c, const basic_return& m) {
  request& its = *c.sent;
  for (std::size_t i = 0; i != its.queues.size(); ++i) {
    if (its.queues[i] != m.routing_key || its.confirmed[i] || its.so_far.missing[i]) continue;
    its.so_far.missing[i] = true;
    c.incoming = message{};
    return true;
  }
  return malformed("the broker has returned a message that was not sent");
}

bool dialogue::on_confirm(channel& c, std::uint64_t tag, bool multiple) {
  request& its = *c.sent;
  const std::uint64_t end = its.first_tag + its.confirmed.size();
  if (multiple && tag == 0) tag = end - 1;
  if (!c.has_confirms || its.confirmed.empty() || tag < its.first_tag || tag >= end)
    return malformed("the broker has confirmed a message that was not sent");
  const std::size_t last = static_cast<std::size_t>(tag - its.first_tag);
  if (its.confirmed[last]) return malformed("the broker has confirmed a message twice");
  for (std::size_t i = multiple ? 0 : last; i <= last; ++i) {
    if (its.confirmed[i]) continue;
    its.confirmed[i] = true;
    --its.unconfirmed;
  }
  return true;
}

/// The broker ignores everything on the channel until it gets close-ok, so nothing behind the refused step is done.
void dialogue::on_channel_close(std::uint16_t number, channel& c, const channel_close& m) {
  const refusal why{m.reply_code, m.reply_text};
  append_own(number, channel_close_ok{});
  std::optional<request> refused = std::move(c.sent);
  c.sent.reset();
  c.incoming.reset();
  const bool consumed = std::exchange(c.consumes, false);
  const auto stopped = c.user.stopped;
  send_opening(number, c);
  if (refused) {
    refused->so_far.refused = why;
    if (refused->then) refused->then(std::move(refused->so_far));
  }
  if (phase_ == phase::open && (consumed || !refused) && stopped) stopped(why);
}

void dialogue::message_complete(channel& c) {
  const message its = std::move(*c.incoming);
  c.incoming.reset();
  if (!its.delivery) {
    // The message of a get. A message that was returned was noted by its method.
    if (c.sent && c.sent->queues.empty()) c.sent->so_far.has_message = true;
    return;
  }
  const auto delivered = c.user.delivered;
  if (delivered) delivered(its.delivery->delivery_tag, its.content.body());
}

/// A request is complete if each step is answered, the last message is complete, and all publishes are confirmed.
void dialogue::complete_if_done(std::uint16_t number, channel& c) {
  if (!c.sent || c.incoming || c.sent->unconfirmed != 0 || c.sent->so_far.answered != c.sent->expected.size()) return;
  request done = std::move(*c.sent);
  c.sent.reset();
  if (done.then) done.then(std::move(done.so_far));
  if (phase_ == phase::open) send_next(number, c);
}

// --- What goes out.

std::uint16_t dialogue::open_channel(bool with_confirms, channel_user user) {
  if (!is_open() || channels_.size() >= tuned_.channel_max) return 0;
  const auto number = static_cast<std::uint16_t>(channels_.size() + 1);
  channel& made = channels_[number];
  made.has_confirms = with_confirms;
  made.user = std::move(user);
  send_opening(number, made);
  return number;
}

void dialogue::append_own(std::uint16_t number, const method& what) {
  const error_code too_long = append_method(out_, number, what);
  protocol::check_invariant("a method with texts of our own fits into a frame", [&] { return !too_long; });
}

void dialogue::send_opening(std::uint16_t number, channel& c) {
  c.at = stage::opening;
  c.last_tag = 0;
  append_own(number, channel_open{});
  if (c.has_confirms) append_own(number, confirm_select{});
}

void dialogue::set_user(std::uint16_t number, channel_user user) {
  if (channel* const its = find(number)) its->user = std::move(user);
}

void dialogue::ask(std::uint16_t number, steps what, time_point deadline, answer_function then) {
  channel* const its = find(number);
  if (!its) return;
  request& added = its->waiting.emplace_back();
  added.what = std::move(what);
  added.deadline = deadline;
  added.then = std::move(then);
  send_next(number, *its);
}

void dialogue::append(std::uint16_t number, const step& what) {
  error_code failed = append_method(out_, number, what.what);
  if (!failed && has_content(what.what))
    failed = append_content(out_, number, what.properties, what.body, tuned_.frame_max);
  if (failed) end({error::bad_request, {"a name does not fit into a frame", {}, {}, {}}});
}

void dialogue::send_next(std::uint16_t number, channel& c) {
  if (c.at != stage::open || c.sent || c.waiting.empty()) return;
  request& its = c.sent.emplace(std::move(c.waiting.front()));
  c.waiting.pop_front();
  its.first_tag = c.last_tag + 1;
  for (const step& each : its.what) {
    if (const std::size_t answer = answer_to(each.what); answer != no_answer) its.expected.push_back(answer);
    if (const auto* const publish = std::get_if<basic_publish>(&each.what); publish && c.has_confirms)
      its.queues.push_back(publish->routing_key);
  }
  its.confirmed.resize(its.queues.size());
  its.so_far.missing.resize(its.queues.size());
  its.unconfirmed = its.queues.size();
  c.last_tag += its.queues.size();
  const steps sent = std::move(its.what);
  for (const step& each : sent) {
    if (phase_ != phase::open) return;  // a step before could not be sent
    append(number, each);
  }
}

void dialogue::tell(std::uint16_t number, const step& what) {
  const channel* const its = find(number);
  if (its && its->at == stage::open && is_open()) append(number, what);
}

void dialogue::close(failure why) {
  if (phase_ != phase::open) return;
  why_ = std::move(why);
  phase_ = phase::closing;
  append_own(0, connection_close{success, "closed by the client", 0, 0});
}

bool dialogue::has_pending() const noexcept {
  return std::any_of(channels_.begin(), channels_.end(),
                     [](const auto& each) { return each.second.sent || !each.second.waiting.empty(); });
}

dialogue::time_point dialogue::deadline() const noexcept {
  time_point first = time_point::max();
  for (const auto& [number, c] : channels_) {
    if (c.sent) first = std::min(first, c.sent->deadline);
    for (const request& each : c.waiting) first = std::min(first, each.deadline);
  }
  return first;
}

void dialogue::end(failure why) {
  if (phase_ == phase::ended) return;
  if (phase_ != phase::closing) why_ = std::move(why);
  phase_ = phase::ended;
  // A function may end up here again, or replace others. So all of them are taken out first.
  const std::map<std::uint16_t, channel> channels = std::exchange(channels_, {});
  const listener told = std::exchange(listener_, {});
  const failure reason = why_;
  const auto fail = [&reason](const request& each) {
    reply answer = each.so_far;
    answer.error = reason;
    if (each.then) each.then(std::move(answer));
  };
  for (const auto& [number, c] : channels) {
    if (c.sent) fail(*c.sent);
    for (const request& each : c.waiting) fail(each);
  }
  for (const auto& [number, c] : channels)
    if (c.user.ended) c.user.ended(reason);
  if (told.ended) told.ended(reason);
}

void dialogue::abandon() noexcept {
  phase_ = phase::ended;
  channels_.clear();
  listener_ = {};
}

}  // namespace holdfast::rabbitmq::detail
