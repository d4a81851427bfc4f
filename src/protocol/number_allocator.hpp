#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "protocol/context.hpp"
#include "protocol/outage.hpp"

namespace holdfast::protocol {

/// Which numbers our sessions try to lock. Consul keeps numbers for the lock delay of their last owners, and tells
/// nobody when that ends.
class number_allocator {
public:
  /// `count` numbers, if there are so many that are not taken: from any place on, so that two who choose at once seldom
  /// choose the same.
  std::vector<std::uint32_t> choose(context& ctx, std::vector<bool> taken, std::size_t count);
  /// Whether it makes sense to choose now: none was free lately.
  bool may_choose(context& ctx) const { return ctx.due_or_wake(none_free_.retry_at()); }
  void nobody_needs_one() { none_free_.over(); }
  /// Whether the last choice left out a free number, because it was refused lately. Its pause wakes us, and a look at
  /// Consul would show nothing new.
  bool leaves_out_a_free_one() const { return leaves_out_a_free_one_; }
  /// None is free. Only a view that rests on a later request than this is another look.
  request_id sought() const { return sought_; }
  void found_none(context& ctx);

  void locked(std::uint32_t number) {
    delays_.erase(number);
    none_free_.over();
  }
  void refused(context& ctx, std::uint32_t number) { delays_[number].failed({}, ctx.now(), ctx.random()); }

private:
  std::map<std::uint32_t, outage> delays_;
  outage none_free_;
  request_id sought_ = 0;
  bool leaves_out_a_free_one_ = false;
};

}  // namespace holdfast::protocol
