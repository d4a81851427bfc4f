// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/raw_amqp.hpp"

namespace holdfast::test {

/// An operator of a broker: rabbitmqctl, or the functions of `testing::broker`.
class broker_operator {
public:
  virtual ~broker_operator() = default;
  virtual std::uint16_t port() const = 0;
  virtual void delete_queue(const std::string& name) = 0;
  /// Closes the connection of the client that has this port.
  virtual void close_connection(std::uint16_t client_port) = 0;
  virtual void set_alarm(bool is_on) = 0;
  virtual void stop_application() = 0;
  virtual void start_application() = 0;
  virtual void add_user(const std::string& name, const std::string& password) = 0;
  virtual void set_rights(const std::string& name, const std::string& configure, const std::string& write,
                          const std::string& read) = 0;
  virtual void delete_user(const std::string& name) = 0;
};

/// A semaphore of its own with one slot, on the broker that all facts share, or on a model.
struct broker_scene {
  using answers = std::vector<std::string>;

  broker_scene(broker_operator& on, std::string_view fact);

  amqp_login login(std::uint16_t heartbeat = 0) const;
  /// A message to each queue. Returns when they have arrived: a passive declare may overtake a message.
  void publish_token(raw_amqp& wire, const std::vector<std::string>& queues);
  void await_count(raw_amqp& wire, const std::string& queue, std::uint32_t count);
  bool is_free(raw_amqp& wire) { return wire.ask({take()}) == answers{"ok"}; }
  void await_free(raw_amqp& wire);
  amqp_request take() const { return declare_exclusive(B, length_0()); }

  broker_operator& broker;
  const std::uint16_t port;
  const std::string name, A, B, F;
};

/// Waits until the condition holds. Fails the test after a minute.
void expect_soon(std::string_view what, const std::function<bool()>& condition);

/// Turns the alarm off again at the end of its scope.
class alarm_on {
public:
  explicit alarm_on(broker_operator& broker) : broker_(broker) { broker_.set_alarm(true); }
  ~alarm_on() { broker_.set_alarm(false); }
  alarm_on(const alarm_on&) = delete;
  alarm_on& operator=(const alarm_on&) = delete;

private:
  broker_operator& broker_;
};

void run_on_broker(std::string_view fact, void (*body)(broker_scene&));
void run_on_model(std::string_view fact, void (*body)(broker_scene&));
/// True if AMQP_URL names a broker.
boost::test_tools::assertion_result has_broker(boost::unit_test::test_unit_id);

}  // namespace holdfast::test

/// A fact about RabbitMQ: `FACT(a_name_which_is_a_sentence) { ... on ... }`. The same code is one test on the model,
/// and one on the broker that AMQP_URL names, which is always right.
#define FACT(name)                                                                                      \
  static void name(holdfast::test::broker_scene& on);                                                   \
  BOOST_AUTO_TEST_CASE(name##_on_model) { holdfast::test::run_on_model(#name, name); }                  \
  BOOST_AUTO_TEST_CASE(name##_on_broker, *boost::unit_test::precondition(holdfast::test::has_broker)) { \
    holdfast::test::run_on_broker(#name, name);                                                         \
  }                                                                                                     \
  static void name([[maybe_unused]] holdfast::test::broker_scene& on)
