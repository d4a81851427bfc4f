// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <cstddef>
#include <holdfast/log_event.hpp>
#include <iterator>

#include "net/utf8.hpp"

namespace holdfast {
namespace {

struct form {
  log_kind kind;
  severity level;
  std::string_view text;  ///< with the names of fields in braces
};

/// tools/rules/trouble.py compares the texts with doc/trouble.md.
constexpr form forms[] = {
    {log_kind::slot_lost, severity::error, "slot of {key} lost: {reason}"},
    {log_kind::slot_revoked, severity::warning, "slot of {key} revoked: an operator asks for it"},
    {log_kind::watch_failed, severity::warning, "watch of {key} failed"},
    {log_kind::watch_restored, severity::info, "watch of {key} works again"},
    {log_kind::answers_contradict, severity::warning, "answers about {key} contradict each other"},
    {log_kind::answers_agree, severity::info, "answers about {key} agree again"},
    {log_kind::outcome_unknown, severity::warning, "a write below {key} has an unknown outcome: its sessions end"},
    {log_kind::contender_passed_over, severity::warning,
     "a contender of {key} is of another kind of client, does not take its slot, and is passed over"},
    {log_kind::no_session_file, severity::warning,
     "no file could be made for a session of {key}, so after the death of this process its slots are taken until its "
     "sessions expire"},
    {log_kind::agent_changed, severity::warning, "requests go to {key} now, no longer to {previous}"},
    {log_kind::connections_refused, severity::warning,
     "{key} refuses connections: this host has as many as it allows from one address. {queries} of {queries_max} "
     "blocking queries run at once now; raise limits.http_max_conns_per_client (200 by default) there"},
    {log_kind::token_unknown, severity::warning, "Consul does not know the new ACL token yet"},
    {log_kind::token_unusable, severity::error, "no new token"},
    {log_kind::certificate_unusable, severity::error, "the certificates have changed, and cannot be used"},
    {log_kind::password_unusable, severity::error, "no new password"},
    {log_kind::tls_not_verified, severity::warning,
     "tls.insecure_skip_verify: any server that answers at {key} gets the token and the keys"},
    {log_kind::broker_alarm, severity::warning, "the broker has an alarm, and takes no messages"},
    {log_kind::broker_alarm_over, severity::info, "the broker takes messages again"},
    {log_kind::application_silent, severity::error, "the application of {key} does not answer: its leases run out"},
    {log_kind::application_answers, severity::info, "the application of {key} answers again"},
};

constexpr bool forms_are_complete() {
  for (std::size_t i = 0; i < std::size(forms); ++i)
    if (forms[i].kind != log_kinds[i]) return false;
  return true;
}
static_assert(std::size(forms) == log_kinds.size() && forms_are_complete());

const form& form_of(log_kind kind) noexcept { return forms[detail::index_of(kind)]; }

/// Characters that end a line, or change how others are shown, in some terminal or viewer.
bool is_harmful(char32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0x61c || c == 0x200e ||
         c == 0x200f || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

void append_number(std::string& to, char32_t value, unsigned digits) {
  while (digits-- != 0) to += "0123456789abcdef"[value >> (4 * digits) & 0xf];
}

/// Appends the text, with backslashes before what is escaped, and before backslashes.
void append_escaped(std::string& to, std::string_view text) {
  while (!text.empty()) {
    const auto [character, size] = net::front_character(text);
    if (size == 0) {
      to += "\\x";
      append_number(to, static_cast<unsigned char>(text.front()), 2);
    } else if (is_harmful(character)) {
      to += "\\u";
      append_number(to, character, 4);
    } else {
      if (character == U'\\') to += '\\';
      to += text.substr(0, size);
    }
    text.remove_prefix(size == 0 ? 1 : size);
  }
}

void append_field(std::string& to, const log_event& of, std::string_view name) {
  if (name == "key") return append_escaped(to, of.key);
  if (name == "previous") return append_escaped(to, of.previous);
  if (name == "reason") to += to_string(of.reason);
  if (name == "queries") to += std::to_string(of.queries);
  if (name == "queries_max") to += std::to_string(of.queries_max);
}

void append_filled(std::string& to, const log_event& of, std::string_view text) {
  while (true) {
    const std::size_t begin = text.find('{');
    to += text.substr(0, begin);
    if (begin == text.npos) return;
    const std::size_t end = text.find('}', begin);
    append_field(to, of, text.substr(begin + 1, end - begin - 1));
    text.remove_prefix(end + 1);
  }
}

}  // namespace

severity log_event::severity() const noexcept {
  return reason == loss_reason::closed ? severity::info : form_of(kind).level;
}

std::string log_event::text() const {
  std::string line;
  append_filled(line, *this, form_of(kind).text);
  std::string_view before = " (";
  const auto append = [&](std::string_view name, std::string_view value) {
    line.append(before).append(name).append(" ");
    append_escaped(line, value);
    before = ", ";
  };
  if (!session.empty()) append("session", session);
  if (slot_number) append("slot number", std::to_string(*slot_number));
  if (token) append("fencing token", token->to_string());
  if (before == ", ") line += ')';
  if (!cause.empty()) {
    line += ": ";
    append_escaped(line, cause);
  }
  if (left_out != 0) line += "; equal events left out before: " + std::to_string(left_out);
  return line;
}

}  // namespace holdfast
