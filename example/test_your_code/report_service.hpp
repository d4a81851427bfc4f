// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <string>

/// The source and the destination of reports. It is an interface, so that tests can use their own implementation.
class report_store {
public:
  virtual ~report_store() = default;
  virtual boost::asio::awaitable<std::string> chapter(int number) = 0;  ///< may take long
  /// Returns false if the token is lower than one seen before. Then the caller was paused, and another process has
  /// taken over.
  virtual bool publish(std::string report, holdfast::fencing_token token) = 0;
};

/// Makes the monthly report. This is a heavy load for the database, so only one process of the cluster may do it at a
/// time.
class report_service {
public:
  enum class outcome {
    published,
    busy,         ///< no slot in time: another process makes it, or Consul cannot be reached. Try again later
    interrupted,  ///< nothing was published: the slot was lost midway, or the store refused the token
  };

  static constexpr int chapters = 3;

  /// The caller passes the client, so that tests can choose which Consul it uses.
  report_service(holdfast::consul::client consul, report_store& store);

  /// Waits for a slot for at most `patience`, and then makes the report.
  boost::asio::awaitable<outcome> make_report(std::chrono::milliseconds patience);
  /// Releases all slots and sessions in Consul. Call it at the end of the program.
  boost::asio::awaitable<void> close();

private:
  holdfast::semaphore semaphore_;
  report_store& store_;
};
