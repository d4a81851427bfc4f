// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/connections/refusals.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::consul::detail {

refusals::verdict refusals::refused(bool is_certain, bool others_work, std::size_t running, time_point now) {
  others_work_ = others_work;
  if (now - std::exchange(last_at_, now) >= row_ends_after) in_a_row_ = 0;
  if (in_a_row_++ == 0) {
    first_at_ = now;
    others_are_served_ = false;
  }
  if (!is_certain && !(goes_on() && others_are_served_)) return verdict::doubted;
  is_last_ = true;
  const bool is_news = !limit_.is_pressed(now);
  // Allow one fewer than run now. Either the refused request was one of them, or it takes precedence and needs the
  // connection of one of them.
  limit_.refused(running - std::min<std::size_t>(running, 1), now);
  return is_news ? verdict::news : verdict::believed;
}

// Before it stops, an agent may still answer requests that were sent earlier. These prove nothing.
void refusals::answered(time_point opened_at, time_point sent_at) noexcept {
  is_last_ = false;
  if (in_a_row_ == 0) return;
  if (opened_at >= first_at_) {
    in_a_row_ = 0;
    others_are_served_ = false;
  } else if (sent_at >= first_at_) {
    others_are_served_ = true;
  }
}

void refusals::forget() { *this = refusals(most_); }

bool refusals::is_to_cede(time_point opened_at, std::size_t running, time_point now, std::minstd_rand& random) const {
  if (running <= kept_for_good) return false;
  // The age is random, so that connections that were opened together are not closed together.
  using std::chrono::milliseconds;
  const milliseconds age(std::uniform_int_distribution<milliseconds::rep>(ceded_after.count() * 3 / 4,
                                                                          ceded_after.count() * 5 / 4)(random));
  return now - opened_at >= age;
}

}  // namespace holdfast::consul::detail
