#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <string>

/// What a report is made from, and where it goes. An interface, so that tests can bring their own.
class report_store {
public:
  virtual ~report_store() = default;
  virtual boost::asio::awaitable<std::string> chapter(int number) = 0;  ///< takes its time
  /// Refuses (false) what comes with a lower token than it has seen: its maker was paused, and another has taken over.
  virtual bool publish(std::string report, holdfast::fencing_token token) = 0;
};

/// Makes the monthly report. That is hard on the database: only one process of the cluster may be at it.
class report_service {
public:
  enum class outcome {
    published,
    busy,         ///< no slot in time: others are at it, or Consul cannot be reached. Try again later
    interrupted,  ///< the slot was lost midway: the work was stopped, nothing was published
  };

  static constexpr int chapters = 3;

  /// The client is handed in, not made here: so tests decide which Consul it is.
  report_service(holdfast::consul::client consul, report_store& store);

  /// Waits for its slot for at most `patience`.
  boost::asio::awaitable<outcome> make_report(std::chrono::milliseconds patience);
  /// Gives everything back to Consul, at the end of the program.
  boost::asio::awaitable<void> close();

private:
  holdfast::semaphore semaphore_;
  report_store& store_;
};
