// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The second line in the value of an entry that was granted, which any Consul client may write.

#include "protocol/record/succession.hpp"
#include "protocol/record/entry_value.hpp"

#include <string>

#include "fuzz.hpp"

using namespace holdfast::protocol;
using holdfast::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string description = "worker 7";
  const std::string value = description + std::string(holdfast::fuzz::text_of(data, size));
  require(value.starts_with(description_in(value)), "a description is how the value begins");
  const entry_value words = parse_entry_value(value);
  require(value.starts_with(words.description), "and so is what people read");
  if (words.since_1970) require(words.since_1970->count() > 0, "nobody stands there since before 1970");
  const auto read = succession_in(value, description);
  if (!read) return 0;

  require(!read->next.empty() || read->number, "it says something");
  require(read->next.size() <= succession_max, "it does not name too many");
  require(!read->number || *read->number < limit_max, "a number is below any limit");
  succession_view view{{}, read->behind, 1, read->number};
  std::uint64_t last = 1;
  for (const contender& each : read->next) {
    require(each.create_index >= last && each.create_index == each.modify_index, "in queue order, untouched");
    require(!each.session.empty() && each.session.find('/') == std::string::npos, "a session is one name");
    last = each.create_index;
    view.next.push_back(&each);
  }
  const std::string written = with_succession(description, view);
  require(written.size() <= description.size() + succession_bytes_max + 64, "what we write is short");
  if (written == description) return 0;  // too long even for one
  const auto again = succession_in(written, description);
  require(again.has_value(), "what we write can be read");
  require(again->number == read->number, "the number, too");
  require(again->next.size() <= read->next.size(), "and names nobody else");
  for (std::size_t i = 0; i < again->next.size(); ++i) {
    require(again->next[i].session == read->next[i].session, "session by session");
    require(again->next[i].create_index == read->next[i].create_index, "where it stood");
    require(again->next[i].flags == read->next[i].flags, "and whether it wants a number");
  }
  return 0;
}
