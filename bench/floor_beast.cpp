#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <charconv>
#include <cstdio>
#include <holdfast/consul/config.hpp>
#include <random>
#include <stdexcept>
#include <thread>

#include "arrivals.hpp"
#include "measure.hpp"
#include "row.hpp"
#include "workloads.hpp"

// What the network, the agent and one thread allow, with no semaphore around it: blocking Beast calls on one
// connection.

namespace holdfast::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

class connection {
public:
  connection() : socket_(io_) {
    const auto address = consul::config::from_environment().address;
    const auto colon = address.rfind(':');
    if (colon == std::string::npos) throw std::runtime_error("CONSUL_HTTP_ADDR is not host:port");
    host_ = address.substr(0, colon);
    asio::ip::tcp::resolver resolver(io_);
    asio::connect(socket_, resolver.resolve(host_, address.substr(colon + 1)));
    socket_.set_option(asio::ip::tcp::no_delay(true));
  }

  /// The reply's body; its X-Consul-Index is in `index` then.
  std::string request(http::verb verb, const std::string& target, std::string body = {}) {
    http::request<http::string_body> out(verb, target, 11, std::move(body));
    out.set(http::field::host, host_);
    out.prepare_payload();
    used.bytes += http::write(socket_, out);
    http::response<http::string_body> in;
    used.bytes += http::read(socket_, buffer_, in);
    ++used.requests;
    if (in.result_int() != 200)
      throw std::runtime_error(target + ": " + std::to_string(in.result_int()) + " " + in.body());
    index = in["X-Consul-Index"];
    return std::move(in.body());
  }
  std::string put(const std::string& target, std::string body = {}) {
    return request(http::verb::put, target, std::move(body));
  }
  std::string create_session() { return member(put("/v1/session/create", R"({"Checks":[],"LockDelay":"0s"})"), "ID"); }

  /// The last value of that name in the JSON, without its quotes.
  static std::string member(const std::string& text, const std::string& name) {
    const auto at = text.rfind('"' + name + "\":");
    if (at == std::string::npos) throw std::runtime_error("no " + name + " in " + text);
    const auto begin = text.find_first_not_of("\" ", at + name.size() + 3);
    return text.substr(begin, text.find_first_of("\",}", begin) - begin);
  }

  traffic used{};
  std::string index{};

private:
  asio::io_context io_{1};
  asio::ip::tcp::socket socket_;
  std::string host_;
  beast::flat_buffer buffer_;
};

/// The two transactions of an uncontended acquire and release, with the sizes that the library's have.
class bare_cycle {
public:
  explicit bare_cycle(connection& c) : connection_(c), session_(c.create_session()) {
    const std::string name = "bench/floor-" + std::to_string(std::random_device()());
    entry_ = R"("Key":")" + name + "/" + session_ + '"';
    record_ = R"("Key":")" + name + R"(/.lock","Flags":16210313421097356768)";
  }
  void acquire() {
    index_ = transact(R"({"KV":{"Verb":"lock",)" + entry_ + R"(,"Value":"aG9zdDoxMjM0NQ==","Session":")" + session_ +
                      R"("}},)" + cas(held));
  }
  void release() { index_ = transact(cas(empty) + R"(,{"KV":{"Verb":"delete",)" + entry_ + "}}"); }

private:
  static constexpr const char* held =
      "eyJMaW1pdCI6MSwiSG9sZGVycyI6eyIwMTIzNDU2Ny04OWFiLWNkZWYtMDEyMy00NTY3ODlhYmNkZWYiOnRydWV9fQ==";
  static constexpr const char* empty = "eyJMaW1pdCI6MSwiSG9sZGVycyI6e319";

  std::string cas(const char* value) const {
    return R"({"KV":{"Verb":"cas",)" + record_ + R"(,"Value":")" + value + R"(","Index":)" + index_ + "}}";
  }
  std::string transact(const std::string& operations) {
    return connection::member(connection_.put("/v1/txn", '[' + operations + ']'), "ModifyIndex");
  }

  connection& connection_;
  std::string session_, entry_, record_, index_ = "0";
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

/// One blocking query at a time, on a connection and a thread of its own: says when the key has changed.
class watcher {
public:
  watcher(connection& writer, std::string key) : writer_(writer), key_(std::move(key)) {
    connection_.request(http::verb::get, key_);
    thread_ = std::jthread([this](std::stop_token stop) {
      while (!stop.stop_requested()) {
        const auto index = connection_.index;
        connection_.request(http::verb::get, key_ + "?wait=10s&index=" + index);
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
  /// The time of the wake-up after the first `count`.
  clock::time_point woken_after(std::uint64_t count) {
    wakes_.wait(count);
    return clock::time_point(duration(woken_.load()));
  }
  std::uint64_t wakes() const { return wakes_; }
  traffic used() const { return connection_.used; }  ///< once `woken_after` has returned

private:
  connection& writer_;
  const std::string key_;
  connection connection_;
  std::atomic<std::uint64_t> wakes_{0};
  std::atomic<clock::rep> woken_{0};
  std::jthread thread_;
};

// One write and one wake-up: what moving a slot to another process cannot do without.
void write_and_wake(const parameters& p) {
  connection writer;
  const std::string key = "/v1/kv/bench/floor-" + std::to_string(std::random_device()());
  writer.put(key, "x");
  watcher other(writer, key);
  latencies times;
  const auto begun = clock::now();
  for (std::uint64_t n = 0; clock::now() < begun + p.window; ++n) {
    const auto wakes = other.wakes();
    const auto written = clock::now();
    writer.put(key, std::to_string(n));
    times.add(other.woken_after(wakes) - written);
  }
  const auto woken = other.used();
  finish(p, times, clock::now() - begun, {writer.used.requests + woken.requests, writer.used.bytes + woken.bytes});
}

// What a loss cannot be noticed without: the watch of a key whose session is destroyed.
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
  if (p.workload == "handoff") return write_and_wake(p);
  if (p.workload == "loss") return session_end(p);
  throw std::invalid_argument("floor-beast has no workload " + p.workload);
}

}  // namespace holdfast::bench
