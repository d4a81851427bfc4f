// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The mutex as its users see it, on a real agent.

#include <boost/test/unit_test.hpp>
#include <string>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

asio::awaitable<consul::kv_entry> read(locker& l) {
  auto answer = co_await l.client.get(l.mutex.key());
  co_return answer.value.value_or(consul::kv_entry());
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(mutex)

ASYNC_TEST_CASE(it_is_locked_and_unlocked_as_gos_is, 30s) {
  agent& a = shared_agent();
  mutex_options options = calm(unique_prefix("lock-unlock") + "/leader");
  options.description = "me";
  locker l(ex, a, options);
  held_mutex held = co_await l.mutex.lock();
  BOOST_TEST(held.held());
  BOOST_TEST(held.count() == 1u);
  const consul::kv_entry key = co_await read(l);
  BOOST_TEST(key.flags == protocol::mutex_flags);
  BOOST_TEST(key.value == "me");
  BOOST_TEST(key.lock_index == 1u);
  BOOST_TEST(held.fencing_token().grant == key.modify_index);
  BOOST_TEST(held.fence_checks().size() == 2u);
  slot none = co_await l.mutex.try_lock();
  BOOST_TEST(!none.valid());
  co_await held.release();
  const consul::kv_entry after = co_await read(l);
  BOOST_TEST(after.session == "");
  BOOST_TEST(after.lock_index == 1u);
  held_mutex again = co_await l.mutex.try_lock();
  BOOST_TEST(again.held());
  BOOST_TEST((again.fencing_token() > held.fencing_token()));
  pending<> closing(ex, l.mutex.close());
  const loss_reason reason = co_await again.wait_lost();
  BOOST_TEST((reason == loss_reason::closed));
  let_go(again);
  const error_code ended = co_await closing.wait();
  BOOST_TEST(!ended);
  const consul::kv_entry closed = co_await read(l);
  BOOST_TEST(closed.session == "");
}

ASYNC_TEST_CASE(a_sequencer_is_verified_as_long_as_the_hold_lasts, 30s) {
  agent& a = shared_agent();
  locker l(ex, a, calm(unique_prefix("sequencer"))), receiver(ex, a, calm(unique_prefix("other")));
  held_mutex held = co_await l.mutex.lock();
  const sequencer mine = co_await sequencer_of(held);
  BOOST_TEST(mine.key == l.mutex.key());
  BOOST_TEST(mine.lock_index == 1u);
  bool valid = co_await verify(receiver.client, mine);
  BOOST_TEST(valid);
  sequencer forged = mine;
  ++forged.lock_index;
  valid = co_await verify(receiver.client, forged);
  BOOST_TEST(!valid);
  co_await held.release();
  valid = co_await verify(receiver.client, mine);
  BOOST_TEST(!valid);
  auto [released, none] = co_await sequencer_of(held, as_result);
  BOOST_TEST(released == error::not_held);
  held_mutex again = co_await l.mutex.lock();
  valid = co_await verify(receiver.client, mine);
  BOOST_TEST(!valid);
  const sequencer next = co_await sequencer_of(again);
  BOOST_TEST(next.lock_index == 2u);
  auto [empty, nothing] = co_await sequencer_of(held_mutex(), as_result);
  BOOST_TEST(empty == error::not_held);
  let_go(again);
  co_await l.mutex.close();
}

/// The lock index starts anew, and the session is the same.
ASYNC_TEST_CASE(a_sequencer_does_not_come_true_again_when_the_key_was_deleted, 30s) {
  locker l(ex, shared_agent(), calm(unique_prefix("deleted")));
  held_mutex held = co_await l.mutex.lock();
  const sequencer first = co_await sequencer_of(held);
  co_await held.release();
  co_await l.client.remove(l.mutex.key());
  held_mutex again = co_await l.mutex.lock();
  const sequencer second = co_await sequencer_of(again);
  BOOST_TEST(second.lock_index == first.lock_index);
  BOOST_TEST(second.session == first.session);
  bool valid = co_await verify(l.client, first);
  BOOST_TEST(!valid);
  valid = co_await verify(l.client, second);
  BOOST_TEST(valid);
  const sequencer as_others_name_it{second.key, second.lock_index, second.session};
  valid = co_await verify(l.client, as_others_name_it);
  BOOST_TEST(valid);
  let_go(again);
  co_await l.mutex.close();
}

ASYNC_TEST_CASE(with_lock_holds_it_for_the_body, 30s) {
  agent& a = shared_agent();
  locker l(ex, a, calm(unique_prefix("with-lock")));
  bool was_held = false;
  auto body = [&](slot& held) -> asio::awaitable<void> {
    was_held = held.held();
    co_return;
  };
  co_await with_lock(l.mutex, body);
  BOOST_TEST(was_held);
  const consul::kv_entry key = co_await read(l);
  BOOST_TEST(key.session == "");
}

BOOST_AUTO_TEST_SUITE_END()
