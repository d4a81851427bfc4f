// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Blocking queries for a key that exists, and the rules of `index` and `wait`.
//
// That something wakes nobody is shown by what comes after it: the reply is that of the later write which does.

#include <chrono>
#include <functional>
#include <string>

#include "conformance/support/fact.hpp"

using namespace std::chrono_literals;
using holdfast::test::base64;
using holdfast::test::op;
using holdfast::test::peer;
using clock_type = std::chrono::steady_clock;

namespace {

// Checks that a watch of `a` is not woken while `done` runs, and is woken by a later write to `a`.
void sleeps_through(peer& consul, const std::function<void()>& done) {
  auto watch = consul.watch("a");
  done();
  BOOST_TEST(watch.still_waits());
  BOOST_REQUIRE(consul.put("a", "later").said() == "200 true");
  const auto reply = watch.woken();
  BOOST_TEST(reply.first().value == base64("later"));
  BOOST_TEST(reply.index() == consul.read("a").modified);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(blocking_key)

FACT(a_put_wakes) {
  consul.put("a", "v");
  auto watch = consul.watch("a");
  BOOST_TEST(watch.still_waits());
  consul.put("a", "w");
  const auto reply = watch.woken();
  BOOST_TEST(reply.first().value == base64("w"));
  BOOST_TEST(reply.index() == consul.read("a").modified);
}

FACT(a_put_of_other_flags_wakes) {
  consul.put("a", "v");
  auto watch = consul.watch("a");
  consul.put("a?flags=1", "v");
  BOOST_TEST(watch.woken().first().flags == 1u);
}

FACT(a_cas_wakes) {
  consul.put("a", "v");
  auto watch = consul.watch("a");
  consul.put("a?cas=" + std::to_string(consul.read("a").modified), "w");
  BOOST_TEST(watch.woken().first().value == base64("w"));
}

FACT(a_deletion_wakes_with_404) {
  consul.put("a", "v");
  auto watch = consul.watch("a");
  const auto before = consul.index("a");
  consul.del("a");
  const auto reply = watch.woken();
  BOOST_TEST(reply.said() == "404 ");
  BOOST_TEST(reply.index() > before);
}

FACT(a_recursive_deletion_wakes) {
  consul.put("p/a", "v");
  auto watch = consul.watch("p/a");
  consul.del("p?recurse");
  BOOST_TEST(watch.woken().said() == "404 ");
}

FACT(an_acquire_and_a_release_wake) {
  const auto id = consul.session();
  consul.put("a", "v");
  auto taken = consul.watch("a");
  consul.put("a?acquire=" + id, "v");
  BOOST_TEST(taken.woken().first().session == id);
  auto given = consul.watch("a");
  consul.put("a?release=" + id, "v");
  BOOST_TEST(given.woken().first().session == "");
}

FACT(the_end_of_its_session_wakes) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id, "v");
  auto watch = consul.watch("a");
  consul.destroy(id);
  BOOST_TEST(watch.woken().first().session == "");
}

FACT(a_transaction_wakes) {
  consul.put("a", "v");
  auto watch = consul.watch("a");
  consul.txn({op("set", "b").value("v"), op("set", "a").value("w")});
  BOOST_TEST(watch.woken().first().value == base64("w"));
}

FACT(a_key_made_anew_wakes_with_the_new_one) {
  consul.put("a", "v");
  auto watch = consul.watch("a");
  consul.txn({op("delete", "a"), op("set", "a").value("v")});
  const auto a = watch.woken().first();
  BOOST_TEST(a.created == a.modified);
}

FACT(a_raw_query_blocks_too) {
  consul.put("a", "v");
  auto watch = consul.watch("a?raw");
  consul.put("a", "w");
  BOOST_TEST(watch.woken().said() == "200 w");
}

FACT(everyone_who_watches_wakes) {
  consul.put("a", "v");
  auto one = consul.watch("a"), two = consul.watch("a"), three = consul.watch("a?raw");
  consul.put("a", "w");
  const auto index = consul.index("a");
  BOOST_TEST(one.woken().index() == index);
  BOOST_TEST(two.woken().index() == index);
  BOOST_TEST(three.woken().index() == index);
}

FACT(a_write_of_what_is_there_wakes_nobody) {
  consul.put("a", "v");
  sleeps_through(consul, [&] {
    consul.put("a", "v");
    consul.put("a?cas=" + std::to_string(consul.read("a").modified), "v");
    consul.txn({op("set", "a").value("v")});
  });
}

FACT(a_write_that_is_refused_wakes_nobody) {
  consul.put("a?acquire=" + consul.session(), "v");
  const auto other = consul.session();
  sleeps_through(consul, [&] {
    consul.put("a?cas=7", "w");
    consul.del("a?cas=7");
    consul.put("a?acquire=" + other, "w");
    consul.put("a?release=" + other, "w");
  });
}

FACT(a_transaction_that_is_refused_wakes_nobody) {
  consul.put("a", "v");
  sleeps_through(consul, [&] {
    BOOST_TEST(consul.txn({op("set", "a").value("w"), op("get", "none")}).status == 409);
    BOOST_TEST(consul.txn({op("delete-tree", ""), op("check-not-exists", "b"), op("get", "none")}).status == 409);
  });
}

FACT(a_lock_taken_again_by_its_holder_wakes_nobody) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id, "v");
  sleeps_through(consul, [&] { consul.put("a?acquire=" + id, "v"); });
}

FACT(reads_wake_nobody) {
  consul.put("a", "v");
  sleeps_through(consul, [&] {
    consul.get("a");
    consul.get("?recurse");
    consul.txn({op("get", "a"), op("check-not-exists", "b")});
  });
}

FACT(writes_to_other_keys_wake_nobody) {
  consul.put("a", "v");
  sleeps_through(consul, [&] {
    for (const auto* name : {"b", "a/b", "ab", "A"}) consul.put(name, "v");
    consul.del("ab");
    consul.del("a/?recurse");
  });
}

FACT(the_end_of_a_session_that_does_not_hold_the_key_wakes_nobody) {
  consul.put("a?acquire=" + consul.session(), "v");
  const auto other = consul.session();
  consul.put("b?acquire=" + other, "v");
  sleeps_through(consul, [&] { consul.destroy(other); });
}

FACT(renewing_its_session_wakes_nobody) {
  const auto id = consul.session({{"TTL", "60s"}});
  consul.put("a?acquire=" + id, "v");
  sleeps_through(consul, [&] { BOOST_TEST(consul.renew(id).status == 200); });
}

FACT(a_query_for_an_older_index_answers_at_once) {
  consul.put("a", "v");
  const auto older = consul.index("a") - 1;
  auto watch = consul.watch("a", older);
  BOOST_TEST(watch.woken().first().value == base64("v"));
}

FACT(index_0_answers_at_once) {
  consul.put("a", "v");
  auto watch = consul.watch("a", 0);
  BOOST_TEST(watch.woken().first().value == base64("v"));
}

// Raft's index belongs to the whole cluster, and the agent writes, too (it registers its own node). So a write of "a"
// may pass over the index that is waited for, and wake the query. Then the test asks again.
FACT(a_query_for_a_later_index_waits_and_writes_below_it_do_not_wake_it) {
  for (;;) {
    consul.put("a", "v");
    const auto target = consul.index("a") + 3;
    auto watch = consul.watch("a", target);
    while (consul.index("a") < target) {
      BOOST_TEST(watch.still_waits());
      consul.put("a", std::to_string(consul.index("a")));
    }
    if (consul.index("a") > target) continue;
    consul.put("a", "last");
    BOOST_TEST(watch.woken().first().value == base64("last"));
    return;
  }
}

FACT(a_wait_that_is_over_answers_with_what_is_there) {
  consul.put("a", "v");
  const auto index = consul.index("a");
  const auto before = clock_type::now();
  const auto reply = consul.get("a?index=" + std::to_string(index) + "&wait=50ms");
  BOOST_TEST((clock_type::now() - before >= 50ms));
  BOOST_TEST(reply.status == 200);
  BOOST_TEST(reply.index() == index);
  BOOST_TEST(reply.first().value == base64("v"));
}

FACT(a_wait_for_a_later_index_that_is_over_answers_with_the_lower_one) {
  consul.put("a", "v");
  const auto index = consul.index("a");
  const auto reply = consul.get("a?index=" + std::to_string(index + 1000) + "&wait=20ms");
  BOOST_TEST(reply.index() == index);
}

FACT(a_wait_without_an_index_does_not_block) {
  consul.put("a", "v");
  BOOST_TEST(consul.get("a?wait=60s").status == 200);  // a reply must come within 20 s
}

BOOST_AUTO_TEST_SUITE_END()
