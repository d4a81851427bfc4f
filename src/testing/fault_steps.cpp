// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "fault_steps.hpp"

#include <string_view>

namespace holdfast::testing::detail {
namespace {

api_reply text_reply(const fault& what) {
  api_reply reply{what.status, {}, what.text};
  reply.headers.emplace_back("Content-Type",
                             what.content_type.empty() ? "text/plain; charset=utf-8" : what.content_type);
  if (!what.location.empty()) reply.headers.emplace_back("Location", what.location);
  return reply;
}

}  // namespace

fault_steps steps_of(const fault& what) {
  using kind = fault::kind;
  using delivery = fault_steps::delivery;
  fault_steps out;
  switch (what.what) {
    case kind::none:
      break;
    case kind::delay:
      out.delay = what.time;
      break;
    case kind::drop_request:
      out.applications = 0;
      out.reply = delivery::none;
      break;
    case kind::drop_reply:
      out.reply = delivery::none;
      break;
    case kind::cut_reply:
      out.reply = delivery::half;
      break;
    case kind::duplicate:
      out.applications = 2;
      break;
    case kind::answer:
      out.applications = 0;
      out.instead = text_reply(what);
      break;
    case kind::answer_applied:
      out.instead = text_reply(what);
      break;
    case kind::refuse_connections:
      out.applications = 0;
      out.refuses = what.count;
      out.reply = delivery::none;
      break;
    case kind::freeze:
      out.held = true;
      break;
    case kind::index_reset:
      out.resets_index = true;
      break;
    case kind::expire_session:
      out.ends_session = true;
      break;
    case kind::other_key:
      out.names_other_key = true;
      break;
    case kind::trickle:
      out.reply = delivery::byte_by_byte;
      out.between = what.time;
      break;
    case kind::repeat_later:
      out.copy_after = what.time;
      break;
    case kind::interim:
      out.interim.assign(what.count, what.status);
      break;
  }
  return out;
}

void name_other_key(std::string& target) {
  constexpr std::string_view keys = "/v1/kv/";
  if (target.starts_with(keys)) target.insert(keys.size(), "other/");
}

void reset_index(api_reply& reply) {
  for (auto& [name, value] : reply.headers)
    if (name == "X-Consul-Index") value = std::string("1");  // g++ 12 at -O3 warns about "1", without a reason
}

}  // namespace holdfast::testing::detail
