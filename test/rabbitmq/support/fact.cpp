// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/support/fact.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <holdfast/testing/broker.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "rabbitmq/address.hpp"
#include "support/process.hpp"

namespace holdfast::test {
namespace {

constexpr auto deadline = std::chrono::seconds(60);
constexpr auto poll_pause = std::chrono::milliseconds(5);
constexpr auto reason = "closed by an operator of a test";

class model_operator final : public broker_operator {
public:
  std::uint16_t port() const override {
    const std::string address = broker_.address();
    return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
  void delete_queue(const std::string& name) override { broker_.delete_queue(name); }
  void close_connection(std::uint16_t client_port) override {
    BOOST_REQUIRE(broker_.close_connection("127.0.0.1:" + std::to_string(client_port), reason) == 1u);
  }
  void set_alarm(bool is_on) override { broker_.set_alarm(is_on); }
  void stop_application() override { broker_.stop(testing::broker::ending::stop); }
  void start_application() override { broker_.start(); }
  void add_user(const std::string& name, const std::string& password) override { broker_.set_user(name, password); }
  void set_rights(const std::string& name, const std::string& configure, const std::string& write,
                  const std::string& read) override {
    broker_.set_rights(name, {configure, write, read});
  }
  void delete_user(const std::string& name) override { broker_.delete_user(name); }

private:
  testing::broker broker_;
};

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

/// The broker that test/rabbitmq/broker.py has started.
class real_operator final : public broker_operator {
public:
  std::uint16_t port() const override {
    rabbitmq::detail::broker_address address;
    std::string_view cause;
    if (parse_address(variable("AMQP_URL"), address, cause)) throw std::runtime_error("AMQP_URL is no address");
    return address.port;
  }
  void delete_queue(const std::string& name) override { ctl({"delete_queue", name}); }
  void close_connection(std::uint16_t client_port) override {
    std::istringstream lines(ctl({"list_connections", "-q", "--no-table-headers", "pid", "peer_port"}));
    std::string pid, found;
    std::uint16_t peer = 0;
    while (lines >> pid >> peer)
      if (peer == client_port) found = pid;
    ctl({"close_connection", found, reason});
  }
  void set_alarm(bool is_on) override {
    if (is_on) {
      ctl({"set_vm_memory_high_watermark", "0.000001"});
    } else {
      ctl({"set_vm_memory_high_watermark", "absolute", "1GiB"});
    }
  }
  void stop_application() override { ctl({"stop_app"}); }
  void start_application() override { ctl({"start_app"}); }
  void add_user(const std::string& name, const std::string& password) override { ctl({"add_user", name, password}); }
  void set_rights(const std::string& name, const std::string& configure, const std::string& write,
                  const std::string& read) override {
    ctl({"set_permissions", name, configure, write, read});
  }
  void delete_user(const std::string& name) override { ctl({"delete_user", name}); }

private:
  static std::string ctl(std::vector<std::string> words) {
    words.insert(words.begin(), {variable("HOLDFAST_BROKER"), "ctl", variable("HOLDFAST_BROKER_FOLDER")});
    const finished_process done = run(std::move(words), deadline);
    BOOST_REQUIRE_MESSAGE(done.status && done.status->success(), "rabbitmqctl fails:\n" << done.output);
    return done.output;
  }
};

}  // namespace

broker_scene::broker_scene(broker_operator& on, std::string_view fact)
    : broker(on),
      port(on.port()),
      name(std::string(fact) + '-' + std::to_string(::getpid())),
      A(name + "-1-A"),
      B(name + "-1-B"),
      F(name + "-1-F") {
  raw_amqp wire(port, login());
  BOOST_REQUIRE((wire.ask({declare(A, length_0()), declare(F, token_queue(2000))}) == answers{"ok", "ok"}));
}

amqp_login broker_scene::login(std::uint16_t heartbeat) const {
  amqp_login guest;
  guest.heartbeat = heartbeat;
  return guest;
}

void broker_scene::publish_token(raw_amqp& wire, const std::vector<std::string>& queues) {
  for (const std::string& each : queues) {
    wire.send({message(each)});
    await_count(wire, each, 1);
  }
}

void broker_scene::await_count(raw_amqp& wire, const std::string& queue, std::uint32_t count) {
  expect_soon("messages in " + queue,
              [&] { return wire.ask({passive(queue)}) == answers{"ok"} && wire.count.at(queue) == count; });
}

void broker_scene::await_free(raw_amqp& wire) {
  expect_soon("the slot is free", [&] { return is_free(wire); });
}

void expect_soon(std::string_view what, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < end, "not in time: " << what);
    std::this_thread::sleep_for(poll_pause);
  }
}

void run_on_model(std::string_view fact, void (*body)(broker_scene&)) {
  model_operator model;
  broker_scene scene(model, fact);
  body(scene);
}

void run_on_broker(std::string_view fact, void (*body)(broker_scene&)) {
  real_operator real;
  broker_scene scene(real, fact);
  body(scene);
}

boost::test_tools::assertion_result has_broker(boost::unit_test::test_unit_id) { return !variable("AMQP_URL").empty(); }

}  // namespace holdfast::test
