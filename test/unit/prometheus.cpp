// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/prometheus.hpp>
#include <holdfast/testing/server.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

#include "runtime/exposition.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

// The statistics in Prometheus' text format. A test in test/monitoring gives the text to promtool.

BOOST_AUTO_TEST_SUITE(prometheus)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_of_labels_are_escaped) {
  runtime::exposition to;
  to.family("a_total", "counter", "Help.");
  to.sample(runtime::labels().and_also("k", "a\"b\\c\nd").and_also("l", ""), 2);
  BOOST_TEST(std::move(to).text() ==
             "# HELP a_total Help.\n# TYPE a_total counter\na_total{k=\"a\\\"b\\\\c\\nd\",l=\"\"} 2\n");
}

BOOST_AUTO_TEST_CASE(a_family_without_samples_is_left_out) {
  runtime::exposition to;
  to.family("a", "gauge", "Help.");
  to.family("b", "histogram", "Help.");
  to.bucket({}, 0.25, 1);
  to.histogram_end({}, 1.5, 2);
  BOOST_TEST(
      std::move(to).text() ==
      "# HELP b Help.\n# TYPE b histogram\nb_bucket{le=\"0.25\"} 1\nb_bucket{le=\"+Inf\"} 2\nb_sum 1.5\nb_count 2\n");
}

ASYNC_TEST_CASE(locks_with_one_label_are_added_up, 20s) {
  const local_store store(ex);
  prometheus_text metrics([](std::string_view name) { return std::string(name.substr(0, name.find('/'))); });
  semaphore first(store, {.prefix = "service/a", .limit = 3});
  metrics.add(first);
  const slot held = co_await first.acquire();
  {
    semaphore second(store, {.prefix = "service/b", .limit = 2});
    metrics.add(second);
    slot its = co_await second.acquire();
    BOOST_TEST(has_line(metrics.text(), "holdfast_holds{lock=\"service\",kind=\"semaphore\"} 2"));
    co_await its.release();
    co_await second.close();
  }
  const std::string text = metrics.text();
  const std::string labels = "{lock=\"service\",kind=\"semaphore\"";
  BOOST_TEST(has_line(text, "holdfast_acquires_total" + labels + ",outcome=\"granted\"} 2"), text);
  BOOST_TEST(has_line(text, "holdfast_hold_seconds_count" + labels + "} 1"), text);
  BOOST_TEST(has_line(text, "holdfast_holds" + labels + "} 1"), text);
  BOOST_TEST(has_line(text, "holdfast_limit" + labels + "} 3"), text);
  BOOST_TEST(has_line(text, "holdfast_losses_total" + labels + ",reason=\"lease_expired\"} 0"), text);
  BOOST_TEST(text.find("holdfast_queue_place") == std::string::npos, text);
}

ASYNC_TEST_CASE(a_client_shows_its_agent, 20s) {
  testing::server fake;
  prometheus_text metrics;
  election nobody(local_store(ex), {.key = "leader"});
  metrics.add(nobody);
  {
    consul::client consul(ex, fake.client_config());
    metrics.add(consul, "main");
    co_await consul.put("k", "v");
    const std::string text = metrics.text();
    BOOST_TEST(has_line(text, "holdfast_client_requests_total{client=\"main\",kind=\"kv_write\",outcome=\"ok\"} 1"),
               text);
    BOOST_TEST(text.find("holdfast_client_agent_info{client=\"main\",address=\"" + fake.address()) != std::string::npos,
               text);
    BOOST_TEST(has_line(text, "holdfast_holds{lock=\"leader\",kind=\"election\"} 0"), text);
  }
  co_await test::until("the client is forgotten",
                       [&] { return metrics.text().find("client=\"main\"") == std::string::npos; });
}

BOOST_AUTO_TEST_CASE(help_and_type_stand_once_before_their_samples) {
  boost::asio::io_context io;
  const local_store store(io);
  const semaphore first(store, {.prefix = "a", .limit = 1}), second(store, {.prefix = "b", .limit = 1});
  const consul::client consul(io);
  prometheus_text metrics;
  metrics.add(first);
  metrics.add(second);
  metrics.add(consul, "consul");
  std::istringstream lines(metrics.text());
  std::set<std::string> seen;
  std::string line, family;
  while (std::getline(lines, line)) {
    std::istringstream words(line);
    std::string mark, what, name;
    words >> mark >> what >> name;
    if (mark == "#" && what == "TYPE") BOOST_TEST(name == family);
    if (mark == "#" && what == "HELP") {
      family = name;
      BOOST_TEST(seen.insert(name).second, name << " stands twice");
    }
    if (mark != "#") BOOST_TEST(line.starts_with(family), line);
  }
  BOOST_TEST(seen.size() > 20u);
}

BOOST_AUTO_TEST_SUITE_END()
