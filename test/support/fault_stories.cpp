// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/fault_stories.hpp"

#include <boost/test/unit_test.hpp>

#include "support/participant.hpp"
#include "support/raw_client.hpp"

namespace holdfast::test {
namespace {

using testing::fault;
using testing::fault_plan;
using testing::front;
using testing::server;
using kind = fault::kind;

// The fault hits only requests that write.
fault_plan on_put(fault what) { return fault_plan({{.what = std::move(what), .target = "PUT "}}); }
fault_plan on_get(fault what) { return fault_plan({{.what = std::move(what), .target = "GET "}}); }

constexpr auto forever = std::chrono::hours(1);
const std::string session_id = "01234567-89ab-cdef-0123-456789abcdef";

void create_session(server& model) {
  model.with([](testing::store& s, auto now) {
    consul::session_info session;
    session.id = session_id;
    session.ttl = std::chrono::hours(1);
    s.create_session(session, now);
  });
}

bool has_session(server& model) {
  return model.with([](testing::store& s, auto) { return s.session(session_id).value.has_value(); });
}

asio::awaitable<void> expect_all_is_well(asio::any_io_executor ex, front& f) {
  raw_client other(ex, f.address());
  const received reply = co_await other.ask("GET", "/v1/status/leader");
  BOOST_TEST(reply.status() == 200);
}

asio::awaitable<void> none(asio::any_io_executor ex, front& f, server& model) {
  f.set_faults(on_get(fault::drop_reply()));
  raw_client client(ex, f.address());
  const received reply = co_await client.ask("PUT", "/v1/kv/none", "1");
  BOOST_TEST(reply.body() == "true");
  BOOST_TEST(value_of(model, "none") == "1");
  BOOST_TEST(f.statistics().faults == 0u);
}

asio::awaitable<void> delay(asio::any_io_executor ex, front& f, server& model) {
  raw_client late(ex, f.address());
  f.set_faults(on_put(fault::delay(forever)));
  const auto before = f.statistics().faults;
  std::string bytes = request("PUT", "/v1/kv/delay", "1");
  co_await late.send(std::move(bytes));
  co_await until("it is delayed", [&] { return f.statistics().faults > before; });
  co_await expect_all_is_well(ex, f);
  BOOST_TEST(value_of(model, "delay") == "");
  late.close();

  raw_client client(ex, f.address());
  f.set_faults(on_put(fault::delay(5ms)));
  const received reply = co_await client.ask("PUT", "/v1/kv/delay", "2");
  BOOST_TEST(reply.body() == "true");
  BOOST_TEST(value_of(model, "delay") == "2");
}

asio::awaitable<void> drop_request(asio::any_io_executor ex, front& f, server& model) {
  f.set_faults(on_put(fault::drop_request()));
  raw_client client(ex, f.address());
  const received reply = co_await client.ask("PUT", "/v1/kv/drop_request", "1");
  BOOST_TEST(reply.was_reset());
  BOOST_TEST(reply.bytes == "");
  BOOST_TEST(value_of(model, "drop_request") == "");
  co_await expect_all_is_well(ex, f);
}

asio::awaitable<void> drop_reply(asio::any_io_executor ex, front& f, server& model) {
  f.set_faults(on_put(fault::drop_reply()));
  raw_client client(ex, f.address());
  const received reply = co_await client.ask("PUT", "/v1/kv/drop_reply", "1");
  BOOST_TEST(reply.was_reset());
  BOOST_TEST(reply.bytes == "");
  BOOST_TEST(value_of(model, "drop_reply") == "1");
  co_await expect_all_is_well(ex, f);
}

asio::awaitable<void> cut_reply(asio::any_io_executor ex, front& f, server& model) {
  raw_client client(ex, f.address());
  const received whole = co_await client.ask("PUT", "/v1/kv/cut_reply", "1");
  BOOST_TEST(whole.body() == "true");
  f.set_faults(on_put(fault::cut_reply()));
  std::string again = request("PUT", "/v1/kv/cut_reply", "2");
  co_await client.send(std::move(again));
  const received cut = co_await client.receive_all();
  BOOST_TEST(cut.bytes == whole.bytes.substr(0, whole.bytes.size() / 2));
  BOOST_TEST(cut.end == asio::error::eof);
  BOOST_TEST(value_of(model, "cut_reply") == "2");
}

asio::awaitable<void> duplicate(asio::any_io_executor ex, front& f, server& model) {
  f.set_faults(on_put(fault::duplicate()));
  raw_client client(ex, f.address());
  const received reply = co_await client.ask("PUT", "/v1/kv/duplicate?cas=0", "1");
  BOOST_TEST(reply.body() == "false");  // to the second: the key was there
  BOOST_TEST(value_of(model, "duplicate") == "1");
}

asio::awaitable<void> answer(asio::any_io_executor ex, front& f, server& model) {
  f.set_faults(on_put(fault::no_leader()));
  raw_client client(ex, f.address());
  const received reply = co_await client.ask("PUT", "/v1/kv/answer", "1");
  BOOST_TEST(reply.status() == 500);
  BOOST_TEST(reply.body() == "No cluster leader");
  BOOST_TEST(value_of(model, "answer") == "");
  const received again = co_await client.ask("PUT", "/v1/kv/answer", "2");  // on the same connection
  BOOST_TEST(again.body() == "true");
}

asio::awaitable<void> answer_applied(asio::any_io_executor ex, front& f, server& model) {
  f.set_faults(on_put(fault::answer_applied(500, "rpc error making call: EOF")));
  raw_client client(ex, f.address());
  const received reply = co_await client.ask("PUT", "/v1/kv/answer_applied", "1");
  BOOST_TEST(reply.status() == 500);
  BOOST_TEST(reply.body() == "rpc error making call: EOF");
  BOOST_TEST(value_of(model, "answer_applied") == "1");
}

asio::awaitable<void> refuse_connections(asio::any_io_executor ex, front& f, server& model) {
  raw_client before(ex, f.address());
  const received first = co_await before.ask("GET", "/v1/status/leader");
  BOOST_TEST(first.status() == 200);
  f.set_faults(on_put(fault::refuse_connections(2)));
  raw_client client(ex, f.address());
  const received met = co_await client.ask("PUT", "/v1/kv/refused", "1");
  BOOST_TEST(met.was_reset());
  for (int i = 0; i < 2; ++i) {
    raw_client next(ex, f.address());
    const received refused = co_await next.ask("PUT", "/v1/kv/refused", "2");
    BOOST_TEST(static_cast<bool>(refused.end));
    BOOST_TEST(refused.bytes == "");
  }
  BOOST_TEST(value_of(model, "refused") == "");
  const received same = co_await before.ask("GET", "/v1/status/leader");  // open connections stay open
  BOOST_TEST(same.status() == 200);
  co_await expect_all_is_well(ex, f);
}

asio::awaitable<void> freeze(asio::any_io_executor ex, front& f, server& model) {
  f.set_faults(on_put(fault::freeze()));
  raw_client stays(ex, f.address());
  std::string put = request("PUT", "/v1/kv/stays", "1");
  co_await stays.send(std::move(put));
  co_await until("it is held", [&] { return f.statistics().frozen == 1; });
  f.set_faults(on_put(fault::freeze()));
  raw_client goes(ex, f.address());
  put = request("PUT", "/v1/kv/goes", "1");
  co_await goes.send(std::move(put));
  co_await until("both are held", [&] { return f.statistics().frozen == 2; });
  goes.close();
  co_await expect_all_is_well(ex, f);  // only these two are
  BOOST_TEST(value_of(model, "stays") == "");
  f.thaw();
  const received reply = co_await stays.receive();
  BOOST_TEST(reply.body() == "true");
  co_await until("the other is applied too", [&] { return value_of(model, "goes") == "1"; });
}

asio::awaitable<void> index_reset(asio::any_io_executor ex, front& f, server& model) {
  raw_client client(ex, f.address());
  co_await client.ask("PUT", "/v1/kv/index_reset", "1");
  const received usual = co_await client.ask("GET", "/v1/kv/index_reset?raw");
  BOOST_TEST(usual.header("X-Consul-Index") != "1");
  BOOST_TEST(usual.header("X-Consul-Index") != "");
  f.set_faults(on_get(fault::index_reset()));
  const received met = co_await client.ask("GET", "/v1/kv/index_reset?raw");
  BOOST_TEST(met.header("X-Consul-Index") == "1");
  BOOST_TEST(met.body() == "1");
  BOOST_TEST(value_of(model, "index_reset") == "1");
}

asio::awaitable<void> expire_session(asio::any_io_executor ex, front& f, server& model) {
  raw_client client(ex, f.address());
  create_session(model);
  f.set_faults(on_put(fault::expire_session()));
  const received renewal = co_await client.ask("PUT", "/v1/session/renew/" + session_id);
  BOOST_TEST(renewal.status() == 404);
  BOOST_TEST(!has_session(model));

  create_session(model);
  f.set_faults(on_put(fault::expire_session()));
  const std::string lock = R"([{"KV":{"Verb":"lock","Key":"k","Value":"","Session":")" + session_id + R"("}}])";
  const received txn = co_await client.ask("PUT", "/v1/txn", lock);
  BOOST_TEST(txn.status() == 409);
  BOOST_TEST(txn.body().find("invalid session") != std::string_view::npos);
  BOOST_TEST(!has_session(model));

  f.set_faults(on_put(fault::expire_session()));  // of a request that names none
  const received put = co_await client.ask("PUT", "/v1/kv/expire_session", "1");
  BOOST_TEST(put.body() == "true");
}

asio::awaitable<void> other_key(asio::any_io_executor ex, front& f, server& model) {
  raw_client client(ex, f.address());
  co_await client.ask("PUT", "/v1/kv/other_key", "1");
  f.set_faults(on_get(fault::other_key()));
  const received hidden = co_await client.ask("GET", "/v1/kv/other_key?raw");
  BOOST_TEST(hidden.status() == 404);
  const received seen = co_await client.ask("GET", "/v1/kv/other_key?raw");
  BOOST_TEST(seen.body() == "1");
  f.set_faults(on_put(fault::other_key()));
  co_await client.ask("PUT", "/v1/kv/other_key", "2");
  BOOST_TEST(value_of(model, "other_key") == "1");
  BOOST_TEST(value_of(model, "other/other_key") == "2");
  f.set_faults(on_put(fault::other_key()));  // of a request that names none
  const received created = co_await client.ask("PUT", "/v1/session/create", "{}");
  BOOST_TEST(created.status() == 200);
}

asio::awaitable<void> trickle(asio::any_io_executor ex, front& f, server& model) {
  raw_client client(ex, f.address());
  const received whole = co_await client.ask("PUT", "/v1/kv/trickle", "1");
  f.set_faults(on_put(fault::trickle(0ms)));
  const received all = co_await client.ask("PUT", "/v1/kv/trickle", "2");
  BOOST_TEST(all.bytes == whole.bytes);
  f.set_faults(on_put(fault::trickle(forever)));
  std::string put = request("PUT", "/v1/kv/trickle", "3");
  co_await client.send(std::move(put));
  const received first = co_await client.receive_some();
  BOOST_TEST(first.bytes == "H");
  BOOST_TEST(value_of(model, "trickle") == "3");
}

// A copy of a request that arrives late overwrites what was written after the answer to the first one.
asio::awaitable<void> repeat_later(asio::any_io_executor ex, front& f, server& model) {
  raw_client other(ex, f.address());
  for (auto after = 5ms; value_of(model, "repeat_later") != "1"; after *= 2) {  // or the copy came before the deletion
    f.set_faults(on_put(fault::repeat_later(after)));
    raw_client client(ex, f.address());
    const received reply = co_await client.ask("PUT", "/v1/kv/repeat_later", "1");
    BOOST_TEST(reply.body() == "true");
    client.close();  // which does not matter to the copy
    const received deleted = co_await other.ask("DELETE", "/v1/kv/repeat_later");
    BOOST_TEST(deleted.body() == "true");
    co_await until("the copy is applied", [&] { return f.statistics().connections == 1; });
  }
  co_await expect_all_is_well(ex, f);
}

asio::awaitable<void> interim(asio::any_io_executor ex, front& f, server& model) {
  raw_client client(ex, f.address());
  const received usual = co_await client.ask("PUT", "/v1/kv/interim", "1");
  f.set_faults(on_put(fault::interim(102, 2)));
  std::string put = request("PUT", "/v1/kv/interim", "2");
  co_await client.send(std::move(put));
  for (int i = 0; i < 2; ++i) {
    const received before = co_await client.receive();
    BOOST_TEST(before.bytes == "HTTP/1.1 102 Processing\r\n\r\n");
  }
  const received reply = co_await client.receive();
  BOOST_TEST(reply.bytes == usual.bytes);
  BOOST_TEST(value_of(model, "interim") == "2");
  const received next = co_await client.ask("PUT", "/v1/kv/interim", "3");  // on the same connection
  BOOST_TEST(next.bytes == usual.bytes);
}

}  // namespace

const std::vector<fault_story>& fault_stories() {
  static const std::vector<fault_story> all{
      {kind::none, "none", none},
      {kind::delay, "delay", delay},
      {kind::drop_request, "drop_request", drop_request},
      {kind::drop_reply, "drop_reply", drop_reply},
      {kind::cut_reply, "cut_reply", cut_reply},
      {kind::duplicate, "duplicate", duplicate},
      {kind::answer, "answer", answer},
      {kind::answer_applied, "answer_applied", answer_applied},
      {kind::refuse_connections, "refuse_connections", refuse_connections},
      {kind::freeze, "freeze", freeze},
      {kind::index_reset, "index_reset", index_reset},
      {kind::expire_session, "expire_session", expire_session},
      {kind::trickle, "trickle", trickle},
      {kind::repeat_later, "repeat_later", repeat_later},
      {kind::other_key, "other_key", other_key},
      {kind::interim, "interim", interim},
  };
  return all;
}

std::string value_of(testing::server& model, const std::string& key) {
  return model.with([&](testing::store& s, auto) {
    const auto found = s.get(key);
    return found.value ? found.value->value : std::string();
  });
}

}  // namespace holdfast::test
