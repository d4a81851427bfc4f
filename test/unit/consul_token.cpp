// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The sources of the ACL token, and what happens when Consul refuses it.

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <holdfast/consul/client.hpp>

#include "consul/token_source.hpp"
#include "support/async.hpp"
#include "support/scripted_server.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(consul_token)

namespace {

using namespace std::chrono_literals;
using holdfast::error;
using holdfast::error_code;
using holdfast::consul::client;
using holdfast::consul::config;
using holdfast::test::pending;
using holdfast::test::scripted_server;
using holdfast::test::temporary_folder;
using entry_answer = holdfast::consul::answer<std::optional<holdfast::consul::kv_entry>>;

const std::string nothing_there = "HTTP/1.1 404 Not Found\r\nX-Consul-Index: 3\r\nContent-Length: 0\r\n\r\n";

std::string token_in(const std::string& request) {
  constexpr std::string_view name = "\r\nX-Consul-Token: ";
  const auto at = request.find(name);
  if (at == std::string::npos) return "(none)";
  const auto begin = at + name.size();
  return request.substr(begin, request.find('\r', begin) - begin);
}

error_code made(const config& settings) {
  boost::asio::io_context context;
  try {
    const client ignored(context, settings);
    return {};
  } catch (const holdfast::system_error& e) {
    BOOST_TEST(std::string(e.what()).find("s3cret") == std::string::npos);
    return e.code();
  }
}

// A server whose replies the test writes, and a client of it.
struct scene {
  explicit scene(const boost::asio::any_io_executor& ex) : server(ex), file(folder.path() + "/token") {
    settings.address = server.address();
    settings.log = [this](const holdfast::log_event& event) { log.push_back(event.text()); };
  }
  temporary_folder folder;
  scripted_server server;
  std::string file;
  std::vector<std::string> log;
  config settings;
};

BOOST_AUTO_TEST_CASE(the_file_beats_the_token_unless_it_is_empty_and_has_to_be_there) {
  const temporary_folder folder;
  config settings;
  settings.token = "given";
  settings.token_file = folder.path() + "/token";
  BOOST_TEST(made(settings) == error::invalid_option);
  folder.write("token", " \n");
  BOOST_TEST(!made(settings));
  folder.write("token", "s3cret with spaces");
  BOOST_TEST(made(settings) == error::invalid_option);
  folder.write("token", std::string(20'000, 'x'));
  BOOST_TEST(made(settings) == error::invalid_option);
  folder.write("token", "s3cret\n");
  BOOST_TEST(!made(settings));
  settings.token_function = [] { return std::string("t"); };
  BOOST_TEST(made(settings) == error::invalid_option);
}

BOOST_AUTO_TEST_CASE(a_changed_file_is_read_before_the_next_request_at_most_once_in_a_second) {
  const temporary_folder folder;
  config settings;
  settings.token_file = folder.path() + "/token";
  folder.write("token", "old");
  holdfast::consul::detail::token_source source(settings);
  const auto no_complaint = [](const std::string& why) { BOOST_ERROR(why); };
  const holdfast::consul::detail::time_point start{1h};
  BOOST_TEST(*source.get(start, no_complaint).text == "old");
  folder.write("token", "newer");
  BOOST_TEST(*source.get(start + 999ms, no_complaint).text == "old");
  BOOST_TEST(*source.get(start + 1s, no_complaint).text == "newer");
  folder.write("token", "newest");
  BOOST_TEST(*source.get(start + 1999ms, no_complaint).text == "newer");
  BOOST_TEST(*source.get(start + 2s, no_complaint).text == "newest");
}

using holdfast::consul::detail::token_source;

// A source whose token the test changes, at the times that it says.
struct rotation {
  config settings{};
  std::string current = "first";
  std::optional<token_source> source{};
  holdfast::consul::detail::time_point now{1h};
  int news = 0;

  rotation() {
    settings.token_function = [this] { return current; };
    source.emplace(settings);
  }
  static void complain(const std::string& why) { BOOST_ERROR(why); }
  token_source::token get() { return source->get(now, complain); }
  std::string text() { return *get().text; }
  token_source::advice unknown(unsigned version) {
    bool is_news = false;
    const token_source::advice its = source->unknown(version, now, complain, is_news);
    news += is_news ? 1 : 0;
    return its;
  }
};

BOOST_AUTO_TEST_CASE(a_new_token_that_is_not_known_leaves_the_accepted_one_in_use) {
  rotation r;
  r.source->accepted(r.get().version);
  r.current = "second";
  const auto second = r.get();
  BOOST_TEST(*second.text == "second");
  BOOST_TEST((r.unknown(second.version) == token_source::advice::send_again));
  for (int trials = 0; trials != 30; ++trials) {
    BOOST_TEST(r.text() == "first");
    r.now += token_source::retry_interval;
    BOOST_TEST(r.text() == "second", "one request tries it");
    BOOST_TEST(r.text() == "first", "and not all others");
    BOOST_TEST((r.unknown(second.version) == token_source::advice::send_again));
  }
  BOOST_TEST(r.news == 1);
  r.now += token_source::retry_interval;
  r.source->accepted(r.get().version);
  for (int i = 0; i != 3; ++i) BOOST_TEST(r.text() == "second");
  BOOST_TEST((r.unknown(second.version) == token_source::advice::send_again), "another server is behind");
  BOOST_TEST(r.news == 1);
  r.now += r.settings.new_token_grace;
  BOOST_TEST((r.unknown(second.version) == token_source::advice::give_up), "it has ended");
}

BOOST_AUTO_TEST_CASE(the_grace_of_a_new_token_ends) {
  rotation r;
  r.source->accepted(r.get().version);
  r.current = "wrong";
  const auto wrong = r.get();
  r.now += r.settings.new_token_grace - 1ms;
  BOOST_TEST((r.unknown(wrong.version) == token_source::advice::send_again));
  r.now += 1ms;
  BOOST_TEST((r.unknown(wrong.version) == token_source::advice::give_up));
  BOOST_TEST(r.text() == "wrong", "nobody is to believe that it works");
  r.current = "first";
  BOOST_TEST(r.text() == "first");
}

BOOST_AUTO_TEST_CASE(the_first_token_of_a_program_has_the_same_grace) {
  rotation r;
  const auto first = r.get();
  BOOST_TEST((r.unknown(first.version) == token_source::advice::wait));
  BOOST_TEST(r.text() == "first");
  BOOST_TEST(r.news == 1);
  r.now += r.settings.new_token_grace;
  BOOST_TEST((r.unknown(first.version) == token_source::advice::give_up));
}

BOOST_AUTO_TEST_CASE(an_accepted_token_that_ends_meanwhile_is_not_used_any_more) {
  rotation r;
  const auto first = r.get();
  r.source->accepted(first.version);
  r.current = "second";
  const auto second = r.get();
  r.unknown(second.version);
  BOOST_TEST(r.text() == "first");
  BOOST_TEST((r.unknown(first.version) == token_source::advice::send_again));
  BOOST_TEST(r.text() == "second");
  BOOST_TEST((r.unknown(second.version) == token_source::advice::wait));
}

BOOST_AUTO_TEST_CASE(a_token_that_comes_back_needs_no_grace) {
  rotation r;
  r.source->accepted(r.get().version);
  r.current = "second";
  r.unknown(r.get().version);
  r.current = "first";
  BOOST_TEST(r.text() == "first");
  BOOST_TEST(r.text() == "first");
}

BOOST_AUTO_TEST_CASE(a_fixed_token_has_no_grace) {
  config settings;
  settings.token = "fixed";
  token_source source(settings);
  const auto fixed = source.get(holdfast::consul::detail::time_point(1h), rotation::complain);
  bool is_news = false;
  BOOST_TEST((source.unknown(fixed.version, holdfast::consul::detail::time_point(1h), rotation::complain, is_news) ==
              token_source::advice::give_up));
  BOOST_TEST(!is_news);
}

ASYNC_TEST_CASE(a_request_with_a_new_token_is_sent_again_with_the_old_one) {
  scene s(ex);
  std::string now = "old";
  s.settings.token_function = [&] { return now; };
  client through(ex, s.settings);
  pending<entry_answer> first(ex, through.get("k"));
  auto [peer, request] = co_await s.server.accept_request();
  co_await peer.send(nothing_there);
  co_await first.wait();
  now = "new";
  std::uint64_t refused = 0;
  for (int i = 0; i != 2; ++i) {
    pending<bool> put(ex, through.put("k", "v"));
    std::string asked = co_await peer.read_request();
    while (token_in(asked) == "new") {  // a slow machine may try it again
      ++refused;
      co_await peer.refuse(403, "rpc error making call: ACL not found");
      asked = co_await peer.read_request();
    }
    BOOST_TEST(token_in(asked) == "old");
    co_await peer.reply("true");
    const error_code ended = co_await put.wait();
    BOOST_TEST(!ended);
  }
  BOOST_TEST(refused >= 1u);
  BOOST_TEST(through.statistics().tokens_unknown == refused);
  BOOST_TEST_REQUIRE(s.log.size() == 1u);
  BOOST_TEST(s.log[0] == "Consul does not know the new ACL token yet");

  // If the old one lacks a right now, the new one is tried at once.
  pending<bool> denied(ex, through.put("k", "v"));
  std::string asked = co_await peer.read_request();
  if (token_in(asked) == "old") {
    co_await peer.refuse(403, "Permission denied");
    asked = co_await peer.read_request();
  }
  BOOST_TEST(token_in(asked) == "new");
  co_await peer.reply("true");
  const error_code ended = co_await denied.wait();
  BOOST_TEST(!ended);
}

ASYNC_TEST_CASE(a_program_whose_first_token_is_new_waits_for_it) {
  scene s(ex);
  s.settings.token_function = [] { return std::string("new"); };
  client through(ex, s.settings);
  pending<bool> put(ex, through.put("k", "v"));
  auto [peer, request] = co_await s.server.accept_request();
  for (int i = 0; i != 3; ++i) {
    co_await peer.refuse(403, "ACL not found");
    std::string again = co_await peer.read_request();
    BOOST_TEST(token_in(again) == "new");
  }
  co_await peer.reply("true");
  const error_code ended = co_await put.wait();
  BOOST_TEST(!ended);
}

ASYNC_TEST_CASE(a_new_token_in_the_file_is_taken_when_the_old_one_is_refused) {
  scene s(ex);
  s.folder.write("token", "\told\r\n");
  s.settings.token_file = s.file;
  client through(ex, s.settings);
  pending<entry_answer> first(ex, through.get("k"));
  auto [peer, request] = co_await s.server.accept_request();
  BOOST_TEST(token_in(request) == "old");
  s.folder.write("token", "new");
  co_await peer.refuse(403, "ACL not found");
  std::string again = co_await peer.read_request();
  BOOST_TEST(token_in(again) == "new");
  co_await peer.send(nothing_there);
  const error_code ended = co_await first.wait();
  BOOST_TEST(!ended);
  BOOST_TEST(s.log.empty());
}

// The client sends the body of a write again, because a refused write had no effect.
ASYNC_TEST_CASE(a_refused_write_goes_once_more_with_the_new_token_and_no_further) {
  scene s(ex);
  s.folder.write("token", "old");
  s.settings.token_file = s.file;
  client through(ex, s.settings);
  pending<bool> put(ex, through.put("k", "value"));
  auto [peer, request] = co_await s.server.accept_request();
  s.folder.write("token", "new");
  co_await peer.refuse(403, "ACL not found");
  std::string again = co_await peer.read_request();
  BOOST_TEST(token_in(again) == "new");
  BOOST_TEST(again.ends_with("\r\n\r\nvalue"));
  co_await peer.refuse(403, "Permission denied");
  const error_code ended = co_await put.wait();
  BOOST_TEST(ended == error::permission_denied);
}

ASYNC_TEST_CASE(what_cannot_be_a_token_is_logged_once_and_the_last_one_stays) {
  scene s(ex);
  s.settings.new_token_grace = 0ms;
  s.folder.write("token", "old");
  s.settings.token_file = s.file;
  client through(ex, s.settings);
  pending<entry_answer> first(ex, through.get("k"));
  auto [peer, request] = co_await s.server.accept_request();
  s.folder.write("token", "s3cret with spaces");
  co_await peer.refuse(403, "ACL not found");
  const error_code ended = co_await first.wait();
  BOOST_TEST(ended == error::permission_denied);
  pending<entry_answer> second(ex, through.get("k"));
  std::string again = co_await peer.read_request();
  BOOST_TEST(token_in(again) == "old");
  std::filesystem::remove(s.file);
  co_await peer.refuse(403, "ACL not found");
  const error_code ended_too = co_await second.wait();
  BOOST_TEST(ended_too == error::permission_denied);
  BOOST_TEST_REQUIRE(s.log.size() == 2u);
  BOOST_TEST(s.log[0].find("printable ASCII") != std::string::npos);
  BOOST_TEST(s.log[0].find("s3cret") == std::string::npos);
  BOOST_TEST(s.log[1].find(s.file) != std::string::npos);
}

// Most programs that write a file truncate it first.
ASYNC_TEST_CASE(a_file_that_becomes_empty_leaves_the_last_token_in_force, 20s) {
  scene s(ex);
  s.folder.write("token", "old");
  s.settings.token_file = s.file;
  s.settings.token = "given";
  s.settings.new_token_grace = 0ms;
  client through(ex, s.settings);
  pending<entry_answer> first(ex, through.get("k"));
  auto [peer, request] = co_await s.server.accept_request();
  s.folder.write("token", "");
  co_await peer.refuse(403, "ACL not found");
  const error_code ended = co_await first.wait();
  BOOST_TEST(ended == error::permission_denied, "it is not sent again with another token");
  pending<entry_answer> second(ex, through.get("k"));
  std::string again = co_await peer.read_request();
  BOOST_TEST(token_in(again) == "old");
  s.folder.write("token", "new");
  co_await peer.refuse(403, "ACL not found");
  std::string last = co_await peer.read_request();
  BOOST_TEST(token_in(last) == "new");
  co_await peer.send(nothing_there);
  co_await second.wait();
  BOOST_TEST_REQUIRE(s.log.size() == 1u);
  BOOST_TEST(s.log[0].find("is empty") != std::string::npos, s.log[0]);
}

ASYNC_TEST_CASE(a_function_may_say_that_there_is_no_token) {
  scene s(ex);
  std::string now = "old";
  s.settings.token_function = [&] { return now; };
  client through(ex, s.settings);
  now.clear();
  pending<entry_answer> get(ex, through.get("k"));
  auto [peer, request] = co_await s.server.accept_request();
  BOOST_TEST(token_in(request) == "(none)");
  co_await peer.send(nothing_there);
  co_await get.wait();
}

ASYNC_TEST_CASE(a_function_says_which_token_is_in_force_for_each_request) {
  scene s(ex);
  std::string token = "a";
  s.settings.token_function = [&] { return token; };
  client through(ex, s.settings);
  pending<entry_answer> first(ex, through.get("k"));
  auto [peer, request] = co_await s.server.accept_request();
  BOOST_TEST(token_in(request) == "a");
  co_await peer.send(nothing_there);
  co_await first.wait();
  token = "b";
  pending<entry_answer> second(ex, through.get("k"));
  std::string again = co_await peer.read_request();
  BOOST_TEST(token_in(again) == "b");
  token.clear();
  co_await peer.refuse(403, "Permission denied");
  std::string anonymous = co_await peer.read_request();
  BOOST_TEST(token_in(anonymous) == "(none)");
  co_await peer.send(nothing_there);
  const error_code ended = co_await second.wait();
  BOOST_TEST(!ended);
}

ASYNC_TEST_CASE(a_function_that_throws_leaves_the_last_token_in_force) {
  scene s(ex);
  bool fails = false;
  s.settings.token_function = [&]() -> std::string {
    if (fails) throw std::runtime_error("the vault is sealed");
    return "a";
  };
  client through(ex, s.settings);
  fails = true;
  pending<entry_answer> first(ex, through.get("k"));
  auto [peer, request] = co_await s.server.accept_request();
  BOOST_TEST(token_in(request) == "a");
  co_await peer.send(nothing_there);
  co_await first.wait();
  BOOST_TEST_REQUIRE(s.log.size() == 1u);
  BOOST_TEST(s.log[0].find("the vault is sealed") != std::string::npos);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
