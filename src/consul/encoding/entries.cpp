// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/entries.hpp"

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <cstdint>

#include "consul/encoding/base64.hpp"
#include "consul/encoding/json.hpp"

// The text is read in one pass into the result types, because building a tree of the document would cost more than
// everything else.
namespace holdfast::consul::detail {
namespace {

namespace json = boost::json;

// The assumed size of an entry's JSON, to estimate the number of entries.
constexpr std::size_t usual_entry_text = 200;

/// The object or array of the document that the parser is in.
enum class place : std::uint8_t { outside, names, listing, entry, txn, results, result, errors, refusal };

/// The kind of the next value in that place: an element, or the member that was just named.
enum class item : std::uint8_t {
  element,
  unknown_member,
  key,
  value,
  flags,
  session,
  create_index,
  modify_index,
  lock_index,
  results,
  errors,
  kv,
  op_index,
  what,
};

struct known_member {
  place in;
  std::string_view name;
  item is;
};

// In the order in which Consul writes them.
constexpr std::array known_members{
    known_member{place::entry, "LockIndex", item::lock_index},
    known_member{place::entry, "Key", item::key},
    known_member{place::entry, "Flags", item::flags},
    known_member{place::entry, "Value", item::value},
    known_member{place::entry, "Session", item::session},
    known_member{place::entry, "CreateIndex", item::create_index},
    known_member{place::entry, "ModifyIndex", item::modify_index},
    known_member{place::result, "KV", item::kv},
    known_member{place::txn, "Results", item::results},
    known_member{place::txn, "Errors", item::errors},
    known_member{place::refusal, "OpIndex", item::op_index},
    known_member{place::refusal, "What", item::what},
};

constexpr unsigned bit(item i) noexcept { return 1u << static_cast<unsigned>(i); }

// The indexes decide who holds what, so a reply without one of them is not taken for one with 0.
constexpr unsigned needed_in(place p) noexcept {
  switch (p) {
    case place::entry:
      return bit(item::key) | bit(item::flags) | bit(item::create_index) | bit(item::modify_index) |
             bit(item::lock_index);
    case place::result:
      return bit(item::kv);
    case place::refusal:
      return bit(item::op_index) | bit(item::what);
    case place::outside:
    case place::names:
    case place::listing:
    case place::txn:
    case place::results:
    case place::errors:
      return 0;
  }
  return 0;
}

/// The handler that Boost.JSON's parser calls with the parts of a document in their order. The parser checks the
/// syntax. A part of a wrong type ends the parsing, except in a member that is not known. If a member comes twice, the
/// last one counts.
class reader {
public:
  // There are no limits here, because the size of the body bounds all texts, and `kept_max` the number of elements.
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = max_object_size;
  static constexpr std::size_t max_key_size = max_object_size;
  static constexpr std::size_t max_string_size = max_object_size;

  reader(std::vector<std::string>& names, std::size_t kept_max) : names_(&names), kept_left_(kept_max) {}
  reader(std::vector<kv_entry>& listing, std::size_t kept_max) : entries_(&listing), kept_left_(kept_max) {}
  reader(txn_reply& txn, std::size_t kept_max) : entries_(&txn.results), txn_(&txn), kept_left_(kept_max) {}

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }

  bool on_object_begin(error_code& ec) {
    if (passes_over()) return ++skipped_ > 0;
    switch (at_) {
      case place::outside:
        return txn_ ? go_to(place::txn) : malformed(ec);
      case place::listing:
        return add_to(*entries_, ec) && go_to(place::entry);
      case place::results:
        return add_to(*entries_, ec) && go_to(place::result);
      case place::result:
        entries_->back() = kv_entry();
        return go_to(place::entry);
      case place::errors:
        return add_to(txn_->errors, ec) && go_to(place::refusal);
      case place::names:
      case place::entry:
      case place::txn:
      case place::refusal:
        return malformed(ec);
    }
    return malformed(ec);
  }

  bool on_object_end(std::size_t, error_code& ec) {
    if (skipped_ > 0) return --skipped_, true;
    const unsigned needed = needed_in(at_);
    if ((seen_ & needed) != needed) return malformed(ec);
    switch (at_) {
      case place::entry:
        go_to(txn_ ? place::result : place::listing);
        seen_ = bit(item::kv);
        return true;
      case place::result:
        return go_to(place::results);
      case place::refusal:
        return go_to(place::errors);
      case place::outside:
      case place::names:
      case place::listing:
      case place::txn:
      case place::results:
      case place::errors:
        return go_to(place::outside);
    }
    return malformed(ec);
  }

  bool on_array_begin(error_code& ec) {
    if (passes_over()) return ++skipped_ > 0;
    if (at_ == place::outside && !txn_) return go_to(names_ ? place::names : place::listing);
    if (next_ != item::results && next_ != item::errors) return malformed(ec);
    const place inside = next_ == item::results ? place::results : place::errors;
    clear();  // if the array comes twice, the last one counts
    return go_to(inside);
  }

  bool on_array_end(std::size_t, error_code&) {
    if (skipped_ > 0) return --skipped_, true;
    return go_to(at_ == place::names || at_ == place::listing ? place::outside : place::txn);
  }

  bool on_key_part(json::string_view part, std::size_t, error_code&) { return skipped_ > 0 || keep(part); }
  bool on_key(json::string_view rest, std::size_t, error_code&) {
    if (skipped_ > 0) return true;
    next_ = find(whole(rest));
    kept_.clear();
    return true;
  }

  bool on_string_part(json::string_view part, std::size_t, error_code&) { return passes_over() || keep(part); }
  bool on_string(json::string_view rest, std::size_t, error_code& ec) {
    if (passes_over()) return true;
    const bool fits = at_ != place::names || may_keep(sizeof(std::string), ec);
    const bool taken = fits && (take(whole(rest)) || malformed(ec));
    kept_.clear();
    return taken;
  }

  bool on_uint64(std::uint64_t number, json::string_view, error_code& ec) {
    return passes_over() || take(number) || malformed(ec);
  }
  bool on_int64(std::int64_t number, json::string_view, error_code& ec) {
    return passes_over() || (number >= 0 && take(static_cast<std::uint64_t>(number))) || malformed(ec);
  }
  bool on_double(double, json::string_view, error_code& ec) { return passes_over() || malformed(ec); }
  bool on_bool(bool, error_code& ec) { return passes_over() || malformed(ec); }
  // Go writes a nil slice as null.
  bool on_null(error_code& ec) { return passes_over() || clear() || malformed(ec); }

  bool on_number_part(json::string_view, error_code&) { return true; }
  bool on_comment_part(json::string_view, error_code&) { return true; }
  bool on_comment(json::string_view, error_code&) { return true; }

private:
  static bool malformed(error_code& ec) {
    ec = error::malformed_reply;
    return false;
  }

  bool may_keep(std::size_t bytes, error_code& ec) noexcept {
    if (bytes <= kept_left_) {
      kept_left_ -= bytes;
      return true;
    }
    ec = error::reply_too_large;
    return false;
  }

  template <class Element>
  bool add_to(std::vector<Element>& list, error_code& ec) {
    if (!may_keep(sizeof(Element), ec)) return false;
    list.emplace_back();
    return true;
  }

  bool go_to(place p) noexcept {
    at_ = p;
    next_ = item::element;
    seen_ = 0;
    expected_ = 0;
    return true;
  }

  /// Consul writes members in the order of the list, so the search starts behind the member that was found last.
  item find(std::string_view name) noexcept {
    for (std::size_t tried = 0; tried < known_members.size(); ++tried) {
      const known_member& candidate = known_members[expected_];
      expected_ = expected_ + 1 == known_members.size() ? 0 : expected_ + 1;
      if (candidate.in == at_ && candidate.name == name) return candidate.is;
    }
    return item::unknown_member;
  }

  /// Returns true if the parser is in a member that is not known.
  bool passes_over() const noexcept { return skipped_ > 0 || next_ == item::unknown_member; }

  /// Keeps a part of a string: a string with escapes comes in parts.
  bool keep(json::string_view part) {
    kept_.append(part.data(), part.size());
    return true;
  }
  std::string_view whole(json::string_view rest) {
    if (kept_.empty()) return {rest.data(), rest.size()};
    kept_.append(rest.data(), rest.size());
    return kept_;
  }

  bool take(std::string_view text) {
    seen_ |= bit(next_);
    switch (next_) {
      case item::key:
        entries_->back().key = text;
        return true;
      case item::value:
        return decode_base64(text, entries_->back().value);
      case item::session:
        entries_->back().session = text;
        return true;
      case item::what:
        txn_->errors.back().text = text;
        txn_->errors.back().reason = refusal_of(text);
        return true;
      case item::element:
        if (at_ != place::names) return false;
        names_->emplace_back(text);
        return true;
      case item::unknown_member:
      case item::flags:
      case item::create_index:
      case item::modify_index:
      case item::lock_index:
      case item::results:
      case item::errors:
      case item::kv:
      case item::op_index:
        return false;
    }
    return false;
  }

  bool take(std::uint64_t number) {
    seen_ |= bit(next_);
    switch (next_) {
      case item::flags:
        entries_->back().flags = number;
        return true;
      case item::create_index:
        entries_->back().create_index = number;
        return true;
      case item::modify_index:
        entries_->back().modify_index = number;
        return true;
      case item::lock_index:
        entries_->back().lock_index = number;
        return true;
      case item::op_index:
        txn_->errors.back().operation = static_cast<std::size_t>(number);
        return true;
      case item::element:
      case item::unknown_member:
      case item::key:
      case item::value:
      case item::session:
      case item::results:
      case item::errors:
      case item::kv:
      case item::what:
        return false;
    }
    return false;
  }

  bool clear() {
    switch (next_) {
      case item::value:
        entries_->back().value.clear();
        return true;
      case item::session:
        entries_->back().session.clear();
        return true;
      case item::results:
        entries_->clear();
        return true;
      case item::errors:
        txn_->errors.clear();
        return true;
      case item::element:
      case item::unknown_member:
      case item::key:
      case item::flags:
      case item::create_index:
      case item::modify_index:
      case item::lock_index:
      case item::kv:
      case item::op_index:
      case item::what:
        return false;
    }
    return false;
  }

  std::vector<std::string>* names_ = nullptr;
  std::vector<kv_entry>* entries_ = nullptr;
  txn_reply* txn_ = nullptr;
  std::size_t kept_left_;
  place at_ = place::outside;
  item next_ = item::element;
  unsigned seen_ = 0;        // members of the object that the parser is in
  std::size_t skipped_ = 0;  // objects and arrays, in an unknown member, that the parser is in
  std::size_t expected_ = 0;
  std::string kept_;
};

json::parse_options bounded_depth() {
  json::parse_options options;
  options.max_depth = depth_max;
  return options;
}

void clear(std::vector<std::string>& names) { names.clear(); }
void clear(std::vector<kv_entry>& entries) { entries.clear(); }
void clear(txn_reply& txn) {
  txn.results.clear();
  txn.errors.clear();
}

}  // namespace

/// A document that is being read, and the position in it.
class entries_reader::document {
public:
  template <class Target>
  document(std::string_view body, Target& out, std::size_t kept_max)
      : rest_(body), parser_(bounded_depth(), out, kept_max) {
    clear(out);
  }

  std::optional<error_code> read(std::size_t size) {
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(part.size());
    error_code ec;
    const std::size_t used = parser_.write_some(!rest_.empty(), part.data(), part.size(), ec);
    if (ec == error::reply_too_large) return ec;
    if (ec || used != part.size()) return error_code(error::malformed_reply);
    return rest_.empty() ? std::optional(error_code()) : std::nullopt;
  }

private:
  std::string_view rest_;
  json::basic_parser<reader> parser_;
};

entries_reader::entries_reader(std::size_t part_max) noexcept : part_max_(part_max) {}
entries_reader::~entries_reader() = default;
entries_reader::entries_reader(entries_reader&&) noexcept = default;

template <class Target>
std::optional<error_code> entries_reader::read_part(std::string_view body, Target& out, std::size_t kept_max) {
  if (body.size() <= part_max_) return document(body, out, kept_max).read(body.size());
  if (!begun_) begun_ = std::make_unique<document>(body, out, kept_max);
  const std::optional<error_code> ended = begun_->read(part_max_);
  if (ended) begun_.reset();
  return ended;
}

std::optional<error_code> entries_reader::read(std::string_view body, std::vector<std::string>& out,
                                               std::size_t kept_max) {
  return read_part(body, out, kept_max);
}

std::optional<error_code> entries_reader::read(std::string_view body, std::vector<kv_entry>& out,
                                               std::size_t kept_max) {
  if (!begun_) out.reserve(std::min(body.size() / usual_entry_text, reserve_max));
  return read_part(body, out, kept_max);
}

std::optional<error_code> entries_reader::read(std::string_view body, txn_reply& out, std::size_t kept_max) {
  return read_part(body, out, kept_max);
}

}  // namespace holdfast::consul::detail
