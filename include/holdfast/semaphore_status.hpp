#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/fencing_token.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// Which client a contender's entry was written by, as far as its flags tell.
enum class contender_kind {
  holdfast,
  go_client,  ///< HashiCorp's, `consul lock` included
  guide,      ///< follows Consul's semaphore guide
};

constexpr std::string_view to_string(contender_kind kind) noexcept {
  switch (kind) {
    case contender_kind::holdfast:
      return "holdfast";
    case contender_kind::go_client:
      return "go_client";
    case contender_kind::guide:
      return "guide";
  }
  return "unknown";
}

/// One slot in use, or one contender that waits for one: a session, not a coroutine. A process that holds several, or
/// waits for several, has as many.
struct contender_status {
  std::string session;
  std::string description;  ///< what its process says of itself, `semaphore_options::description`; not ours to trust
  contender_kind kind = contender_kind::holdfast;
  std::size_t place = 0;  ///< in the queue, from 1; 0: it holds
  /// The slot's, as the holder had it when the cluster granted it. Nothing for those who wait, and for other clients'.
  holdfast::fencing_token token{};
  bool revoked = false;  ///< it was asked to give its slot up
  /// Since it joined the queue, by its clock then and by ours now. Nothing for other clients', and for older entries.
  std::optional<std::chrono::seconds> age{};
  std::optional<std::uint32_t> number{};  ///< of a numbered slot
  /// Another process has granted the slot, and the holder has not accepted the grant yet. A living holder accepts a
  /// grant 0.1 s after it, unless it releases the slot before. If the holder is dead, the slot is taken back.
  bool provisional = false;
  bool operator==(const contender_status&) const = default;
};

/// What stands in Consul of a semaphore, at one instant.
struct semaphore_status {
  bool exists = false;  ///< there is a lock record; otherwise its limit is not known
  std::uint32_t limit = 0;
  bool closed = false;
  std::vector<contender_status> holders;  ///< those that live, in the order in which they joined
  std::vector<contender_status> queue;    ///< whoever comes next first
  std::size_t dead_holders = 0;           ///< named in the record, their sessions gone: their slots come back later
  std::size_t given_back = 0;             ///< named in the record, but given back: their slots are free
  std::size_t dead_entries = 0;           ///< entries that no session holds any more
  std::uint64_t index = 0;                ///< the record's ModifyIndex
  bool operator==(const semaphore_status&) const = default;
};

}  // namespace holdfast
