// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "protocol/base/time.hpp"
#include "protocol/core/actions.hpp"
#include "protocol/record/snapshot.hpp"

namespace holdfast::test {

/// A hash of a sequence of values. Equal sequences have equal digests, and different ones almost never do.
class digest {
public:
  template <class Number>
    requires std::is_integral_v<Number> || std::is_enum_v<Number>
  digest& operator<<(Number n) {
    const auto wide = static_cast<std::uint64_t>(n);
    for (int i = 0; i != 8; ++i) add(static_cast<unsigned char>(wide >> (8 * i)));
    return *this;
  }
  digest& operator<<(std::string_view text) {
    for (const char c : text) add(static_cast<unsigned char>(c));
    return *this << text.size();
  }
  digest& operator<<(protocol::duration d) { return *this << d.count(); }
  digest& operator<<(protocol::time_point t) { return *this << t.time_since_epoch(); }
  digest& operator<<(const kv_entry& pair) {
    return *this << pair.key << pair.value << pair.flags << pair.session << pair.create_index << pair.modify_index;
  }
  digest& operator<<(const kv_operation& op) {
    return *this << op.verb << op.key << op.value << op.flags << op.index << op.session;
  }
  /// An action of a core, without texts for people and without names of types.
  digest& operator<<(const protocol::core_action& a) {
    *this << a.index();
    std::visit([this](const auto& each) { fields(each); }, a);
    return *this;
  }
  std::uint64_t value() const { return hash_; }

private:
  void fields(const protocol::action::create_session& a) { *this << a.member; }
  void fields(const protocol::action::register_node&) {}
  void fields(const protocol::action::renew_session& a) { *this << a.member << a.session; }
  void fields(const protocol::action::destroy_session& a) { *this << a.session; }
  void fields(const protocol::action::send_txn& a) {
    *this << a.id << a.operations.size();
    for (const kv_operation& each : a.operations) *this << each;
  }
  void fields(const protocol::action::list_prefix& a) { *this << a.id << a.index << a.wait; }
  void fields(const protocol::action::watch_key& a) { *this << a.id << a.key << a.index << a.wait; }
  void fields(const protocol::action::read_node& a) { *this << a.id << a.node; }
  void fields(const protocol::action::stop_watch& a) { *this << a.id; }
  void fields(const protocol::action::watch_makers& a) { *this << a.on; }
  void fields(const protocol::action::forget_session& a) { *this << a.session; }
  void fields(const protocol::action::grant& a) {
    *this << a.ticket << a.slot << a.token.to_string() << a.deadline << a.numbers.size();
    for (const std::uint32_t each : a.numbers) *this << each;
  }
  void fields(const protocol::action::deny& a) { *this << a.ticket; }
  void fields(const protocol::action::fail& a) { *this << a.ticket << a.error.code.value(); }
  void fields(const protocol::action::released& a) { *this << a.slot << (a.error ? a.error->code.value() : 0); }
  void fields(const protocol::action::lose& a) { *this << a.slot << a.reason << a.why.code.value(); }
  void fields(const protocol::action::revoke& a) { *this << a.slot; }
  void fields(const protocol::action::update& a) { *this << a.slot << a.deadline << a.suspect; }
  void fields(const protocol::action::closed& a) { *this << a.error.code.value(); }
  void fields(const protocol::action::note&) {}
  void fields(const protocol::action::ask_alive&) {}
  void add(unsigned char c) { hash_ = (hash_ ^ c) * 0x100000001b3; }
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace holdfast::test
