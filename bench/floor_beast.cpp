// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <unistd.h>

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cstdio>
#include <ctime>
#include <future>
#include <holdfast/consul/config.hpp>
#include <holdfast/version.hpp>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "arrivals.hpp"
#include "consul/encoding/base64.hpp"
#include "measure.hpp"
#include "row.hpp"
#include "workloads.hpp"

// The speed that the network and the agent allow. The floor has no semaphore: it sends the same requests by blocking
// calls, on one connection or on two. In the workload loss it destroys the session of a plain key instead.

namespace holdfast::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

class connection {
public:
  connection() : socket_(io_) {
    const auto& address = host_;
    const auto colon = address.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error("CONSUL_HTTP_ADDR is not host:port");
    asio::ip::tcp::resolver resolver(io_);
    asio::connect(socket_, resolver.resolve(address.substr(0, colon), address.substr(colon + 1)));
    socket_.set_option(asio::ip::tcp::no_delay(true));
  }

  /// Returns the reply's body, and sets `index` to its X-Consul-Index.
  std::string send(const std::string& verb, const std::string& target, const std::string& body = {}) {
    auto text = verb + ' ' + target + " HTTP/1.1\r\nHost: " + host_ +
                "\r\nUser-Agent: holdfast/" HOLDFAST_VERSION_STRING "\r\n";
    const std::string type = target.starts_with("/v1/kv/") ? "octet-stream" : "json";
    if (!body.empty()) text += "Content-Type: application/" + type + "\r\n";
    if (verb == "PUT") text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
    text += "\r\n" + body;
    used.bytes += asio::write(socket_, asio::buffer(text));
    http::response<http::string_body> in;
    used.bytes += http::read(socket_, buffer_, in);
    ++used.requests;
    if (in.result_int() != 200)
      throw std::runtime_error(target + ": " + std::to_string(in.result_int()) + " " + in.body());
    index = in["X-Consul-Index"];
    return std::move(in.body());
  }
  std::string put(const std::string& target, const std::string& body = {}) { return send("PUT", target, body); }
  /// Returns the last ModifyIndex of the reply. That is the index of the transaction if it wrote the last key of the
  /// reply.
  std::string transact(const std::string& operations) {
    return member(put("/v1/txn", '[' + operations + ']'), "ModifyIndex");
  }
  std::string create_session() { return member(put("/v1/session/create", R"({"Checks":[],"LockDelay":"0s"})"), "ID"); }

  /// The last value of that name in the JSON, without its quotes.
  static std::string member(const std::string& text, const std::string& name) {
    const auto at = text.rfind('"' + name + "\":");
    if (at == std::string::npos) throw std::runtime_error("no " + name + " in " + text);
    const auto begin = text.find_first_not_of("\" ", at + name.size() + 3);
    return text.substr(begin, text.find_first_of("\",} \n", begin) - begin);
  }

  traffic used{};
  std::string index{};

private:
  asio::io_context io_{1};
  asio::ip::tcp::socket socket_;
  const std::string host_ = consul::config::from_environment().address;
  beast::flat_buffer buffer_;
};

/// The requests that the library sends for a semaphore. bench/recorder.py compares those of a handoff, except for the
/// parts that differ from run to run.
class requests {
public:
  std::string entry(const std::string& session) const { return prefix_ + '/' + session; }
  /// The operation that locks the session's entry.
  std::string lock(const std::string& session) const {
    return kv("lock", entry(session)) + value(description_) + R"(,"Flags":7525352679111917568,"Session":")" + session +
           R"("}})";
  }
  std::string remove(const std::string& session) const { return kv("delete", entry(session)) + "}}"; }
  std::string list() const { return kv("get-tree", prefix_ + '/') + "}}"; }
  std::string record(const std::string& holder, const std::string& index) const {
    const auto holders = holder.empty() ? holder : '"' + holder + R"(":true)";
    return kv("cas", prefix_ + "/.lock") + value(R"({"Limit":1,"Holders":{)" + holders + "}}") +
           R"(,"Flags":16210313421097356768)" + (index.empty() ? index : R"(,"Index":)" + index) + "}}";
  }

  struct contender {
    std::string session, index;  ///< of its entry
  };
  /// The operation that writes the grant into the entry of `holder`. The grant names the contenders of `next`, which
  /// come after it, and the number of those `behind` them, which it does not name.
  std::string grant(const contender& holder, const std::vector<contender>& next, std::size_t behind) const {
    auto text = description_;
    for (const auto& each : next) {
      text += text.size() == description_.size() ? "\n{\"Limit\":1,\"Next\":[" : ",";
      text += R"([")" + each.session + R"(",)" + each.index + R"(,")" + host_ + R"(\n~\n)" + since_ + R"("])";
    }
    if (!next.empty()) text += R"(],"Behind":)" + std::to_string(behind) + '}';
    return kv("cas", entry(holder.session)) + value(text) + R"(,"Flags":7525352679648788481,"Index":)" + holder.index +
           "}}";
  }

private:
  static std::string kv(const char* verb, const std::string& key) {
    return std::string(R"({"KV":{"Verb":")") + verb + R"(","Key":")" + key + '"';
  }
  static std::string value(const std::string& text) {
    std::string out = R"(,"Value":")";
    consul::detail::append_base64(out, text);
    return out + '"';
  }

  const std::string prefix_ = "bench/floor-" + std::to_string(std::random_device()());
  const std::string host_ = asio::ip::host_name() + ':' + std::to_string(::getpid());
  const std::string since_ = '@' + std::to_string(std::time(nullptr)) + "+15000-1500";  // when, TTL, and margin
  const std::string description_ = host_ + "\n~\n" + since_;                            // `~`: it accepts grants
};

/// The two transactions of an uncontended acquire and release.
class bare_cycle {
public:
  explicit bare_cycle(connection& c) : connection_(c), session_(c.create_session()) {}

  void acquire() { index_ = connection_.transact(say_.record(session_, index_) + ',' + say_.lock(session_)); }
  void release() {
    index_ = connection_.transact(say_.record({}, index_) + ',' + say_.remove(session_) + ',' + say_.list());
  }

private:
  connection& connection_;
  const requests say_{};
  std::string session_, index_;
};

void finish(const parameters& p, const latencies& times, duration measured, const traffic& used) {
  row r;
  r.set_rates(static_cast<double>(times.count()), measured, used);
  r.times = &times;
  std::puts(r.to_json(p).c_str());
}

void loop(const parameters& p) {
  connection c;
  bare_cycle cycle(c);
  latencies times;
  const auto once = [&] {
    const auto begun = clock::now();
    cycle.acquire();
    cycle.release();
    return clock::now() - begun;
  };
  for (const auto end = clock::now() + p.window / 4; clock::now() < end;) once();
  const auto before = c.used;
  const auto begun = clock::now();
  while (clock::now() < begun + p.window) times.add(once());
  finish(p, times, clock::now() - begun, c.used - before);
}

void arrive(const parameters& p) {
  connection c;
  bare_cycle cycle(c);
  latencies times;
  cycle.acquire();
  cycle.release();
  const auto before = c.used;
  const auto begun = clock::now();
  arrivals schedule(p.rate, begun);
  for (auto next = schedule.next(); next < begun + p.window; next = schedule.next()) {
    std::this_thread::sleep_until(next);
    cycle.acquire();
    times.add(clock::now() - next);
    std::this_thread::sleep_for(visit_time);
    cycle.release();
  }
  finish(p, times, clock::now() - begun, c.used - before);
}

/// Runs one blocking query after the other, on a connection and a thread of its own, and notes when the key changes.
class watcher {
public:
  watcher(connection& writer, std::string key) : writer_(writer), key_(std::move(key)) {
    connection_.send("GET", key_);
    thread_ = std::jthread([this](std::stop_token stop) {
      while (!stop.stop_requested()) {
        const auto index = connection_.index;
        connection_.send("GET", key_ + "?wait=10s&index=" + index);
        if (connection_.index == index) continue;
        woken_ = clock::now().time_since_epoch().count();
        ++wakes_;
        wakes_.notify_one();
      }
    });
  }
  watcher(const watcher&) = delete;
  watcher& operator=(const watcher&) = delete;
  ~watcher() {
    thread_.request_stop();
    writer_.put(key_, "end");  // wakes it
  }
  /// Waits for more than `count` wake-ups, and returns the time of the last one.
  clock::time_point woken_after(std::uint64_t count) {
    wakes_.wait(count);
    return clock::time_point(duration(woken_.load()));
  }
  std::uint64_t wakes() const { return wakes_; }
  traffic used() const { return connection_.used; }  ///< not synchronized: only valid while no query is under way

private:
  connection& writer_;
  const std::string key_;
  connection connection_;
  std::atomic<std::uint64_t> wakes_{0};
  std::atomic<clock::rep> woken_{0};
  std::jthread thread_;
};

/// Hands one slot from contender to contender, as in a queue that each of them joins again at once. Each contender
/// waits until its entry changes. Then it sends the transaction that grants the slot to the next one and queues anew.
/// The contenders take turns on two connections, each with a thread of its own, so that one connection can send a
/// request while the other waits for a reply.
class relay {
public:
  explicit relay(const parameters& p) : begin_(clock::now() + p.window / 4), end_(begin_ + p.window) {
    if (p.contenders % 2 != 0) throw std::invalid_argument("the floor of a handoff wants an even number of contenders");
    connection c;
    for (std::uint32_t i = 0; i < p.contenders; ++i) queue_.push_back({c.create_session(), {}});
    for (auto& each : queue_) each.index = c.transact(say_.lock(each.session));
    record_ = c.transact(say_.record(queue_[0].session, {}));
  }

  void run(const parameters& p) {
    {
      auto other = std::async(std::launch::async, [this] { play(1); });
      play(0);
      other.get();
    }
    latencies all;
    traffic used;
    for (const auto& each : sides_) {
      all += each.times;
      used += each.used;
    }
    finish(p, all, end_ - begin_, used);
  }

private:
  struct side {
    latencies times{};
    traffic used{};
  };

  void play(std::size_t number) try {
    connection c;
    auto queue = queue_;  // with the indexes that this side has seen
    auto record = record_;
    traffic before;
    bool holds = number == 0, counts = false;
    for (auto me = number;; me = (me + 2) % queue.size()) {
      if (!std::exchange(holds, false)) {
        const auto target = "/v1/kv/" + say_.entry(queue[me].session) + "?consistent&index=" + queue[me].index;
        do {
          c.send("GET", target + "&wait=125ms");
        } while (c.index == queue[me].index && !over_);
        const auto now = clock::now();
        if (counts) sides_[number].times.add(now - clock::time_point(duration(sent_.load())));
        if (now >= end_) over_ = true;
        if (over_) break;
        record = c.index;
        queue[(me + queue.size() - 1) % queue.size()].index = record;
        if (now >= begin_ && !std::exchange(counts, true)) before = c.used;
      }
      const auto body = hand_over(queue, me, record);
      sent_ = clock::now().time_since_epoch().count();
      record = queue[me].index = c.transact(body);
    }
    sides_[number].used = c.used - before;
  } catch (...) {
    over_ = true;
    throw;
  }

  // Like a holder of the library, the floor names the contenders that it knows to come next, without the one to which
  // it grants the slot. A holder that knows none reads the queue; the floor does not read it.
  std::string hand_over(const std::vector<requests::contender>& queue, std::size_t me, const std::string& record) {
    const auto at = [&](std::size_t i) { return queue[(me + i) % queue.size()]; };
    const auto waiting = queue.size() - 2;
    const auto most = std::min<std::size_t>(waiting, 16);
    const auto known = named_ == 0 ? most : named_ - 1;
    named_ = known;
    std::vector<requests::contender> next;
    for (std::size_t i = 0; i < known; ++i) next.push_back(at(2 + i));
    return say_.record(at(1).session, record) + ',' + say_.grant(at(1), next, waiting - most) + ',' +
           say_.remove(at(0).session) + ',' + say_.lock(at(0).session);
  }

  const clock::time_point begin_, end_;
  const requests say_{};
  std::vector<requests::contender> queue_{};
  std::string record_{};
  side sides_[2]{};
  std::atomic<std::size_t> named_{0};  ///< contenders that the last grant named
  std::atomic<clock::rep> sent_{0};
  std::atomic<bool> over_{false};
};

// The least that a loss takes to be noticed: a watch sees that the session of its key is destroyed.
void session_end(const parameters& p) {
  connection writer;
  latencies times;
  const std::string key = "/v1/kv/bench/floor-" + std::to_string(std::random_device()());
  writer.put(key, "x");
  watcher other(writer, key);
  for (const auto end = clock::now() + p.window; clock::now() < end;) {
    const auto session = writer.create_session();
    auto wakes = other.wakes();
    writer.put(key + "?acquire=" + session, "x");
    other.woken_after(wakes);
    std::this_thread::sleep_for(std::chrono::milliseconds(15));
    wakes = other.wakes();
    const auto destroyed = clock::now();
    writer.put("/v1/session/destroy/" + session);
    times.add(other.woken_after(wakes) - destroyed);
  }
  row r;
  r.times = &times;
  std::puts(r.to_json(p).c_str());
}

}  // namespace

void bare(const parameters& p) {
  if (p.workload == "cycle") return loop(p);
  if (p.workload == "open-loop") return arrive(p);
  if (p.workload == "handoff") return relay(p).run(p);
  if (p.workload == "loss") return session_end(p);
  throw std::invalid_argument("floor-beast has no workload " + p.workload);
}

}  // namespace holdfast::bench
