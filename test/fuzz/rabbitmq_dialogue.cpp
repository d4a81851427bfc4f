// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// All that a broker says on one connection: the client's dialogue, from the greeting on or behind the login.
//
// The input has a byte for how far the dialogue has come, a byte for the sizes of the pieces, and the bytes of the
// broker.

#include <string>
#include <vector>

#include "fuzz.hpp"
#include "rabbitmq/dialogue.hpp"

using namespace holdfast;
using namespace holdfast::rabbitmq::detail;
using holdfast::fuzz::require;

namespace {

constexpr auto never = dialogue::time_point::max();

/// From where on the input speaks for the broker.
enum class beginning { greeting, opening, waiting_for_a_seizure, waiting_for_a_probe, listening };
constexpr int beginnings = 5;

void say(dialogue& to, std::uint16_t channel, const method& what) {
  std::string bytes;
  require(!append_method(bytes, channel, what), "a method can be written");
  to.receive(bytes);
}

queue_declare passive(std::string queue) {
  queue_declare what;
  what.queue = std::move(queue);
  what.passive = true;
  return what;
}

steps seizure() {
  queue_declare holder;
  holder.queue = "n-1-B";
  holder.exclusive = true;
  return {{holder, {}, {}}, {basic_get{"n-1-F", true}, {}, {}}, {passive("n-1-A"), {}, {}}};
}

steps probes() {
  basic_publish what;
  what.routing_key = "n-1-A";
  what.mandatory = true;
  basic_publish other = what;
  other.routing_key = "n-1-B";
  return {{what, {}, {}}, {other, {}, {}}};
}

/// Everything that a dialogue has told and sent.
struct transcript {
  std::vector<std::string> events{};
  std::string sent{};
  int asked = 0, answered = 0, ended = 0;

  bool operator==(const transcript&) const = default;
};

class scene {
public:
  explicit scene(beginning from) : talk_(terms()) {
    talk_.set_listener({[this] { note("opened"); }, [this](bool on) { note(on ? "blocked" : "unblocked"); },
                        [this](const failure& why) { end(why); }});
    talk_.begin();
    if (from == beginning::greeting) return;
    connection_start start;
    start.mechanisms = "PLAIN";
    say(talk_, 0, start);
    say(talk_, 0, connection_tune{2047, 131'072, 60});
    if (from == beginning::opening) return;
    say(talk_, 0, connection_open_ok{});
    open_channel(from == beginning::waiting_for_a_probe);
    if (from == beginning::listening)
      talk_.tell(1, {basic_consume{"n-F"}, {}, {}});
    else
      ask(from == beginning::waiting_for_a_probe ? probes() : seizure());
  }

  transcript hear(std::string_view broker, fuzz::pieces sizes) {
    while (!broker.empty()) {
      const std::size_t size = sizes.next(broker.size());
      talk_.receive(broker.substr(0, size));
      broker.remove_prefix(size);
      all_.sent += std::exchange(talk_.output(), {});
    }
    const bool was_over = talk_.current() == dialogue::phase::ended;
    require(!was_over || talk_.why().code.failed(), "an end has a reason");
    require(was_over == (all_.ended == 1), "an end is told once");
    talk_.end(failed(error::connection_lost, "the input is over"));
    require(all_.ended == 1, "the end is told once");
    require(all_.answered == all_.asked, "each request is answered once");
    return std::move(all_);
  }

private:
  static dialogue::terms terms() { return {{"PLAIN", "secret"}, "fuzz", "/", 5}; }

  void open_channel(bool with_confirms) {
    channel_user user;
    user.delivered = [this](std::uint64_t tag, const std::string& body) {
      require(body.size() <= dialogue::body_bytes_kept, "no more of a body is kept than asked for");
      note("hint " + std::to_string(tag) + body);
    };
    user.stopped = [this](const refusal& why) { note("stopped " + std::to_string(why.code)); };
    user.ended = [this](const failure&) { note("the channel has ended"); };
    talk_.open_channel(with_confirms, std::move(user));
    say(talk_, 1, channel_open_ok{});
    if (with_confirms) say(talk_, 1, confirm_select_ok{});
  }
  void ask(steps what) {
    ++all_.asked;
    talk_.ask(1, std::move(what), never, [this](reply&& answer) {
      ++all_.answered;
      note("answer " + std::to_string(answer.answered) + (answer.has_message ? " with a token" : "") +
           (answer.refused ? " refused" : "") + (answer.error.code ? " ended" : ""));
      if (!answer.error.code && all_.asked < requests_max) ask(seizure());
    });
  }
  void note(std::string what) { all_.events.push_back(std::move(what)); }
  void end(const failure& why) {
    ++all_.ended;
    note("ended " + why.code.message());
  }

  static constexpr int requests_max = 5;

  transcript all_{};
  dialogue talk_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  const auto from = static_cast<beginning>(in.byte() % beginnings);
  const std::uint8_t sizes = in.byte();
  const std::string_view broker = in.rest();

  const transcript all = scene(from).hear(broker, fuzz::pieces(0));
  require(all.sent.size() <= 4096 + 64 * broker.size(), "the client says little for what it hears");
  require(scene(from).hear(broker, fuzz::pieces(1)) == all, "pieces do not decide what is understood");
  require(scene(from).hear(broker, fuzz::pieces(sizes)) == all, "pieces do not decide what is understood");
  return 0;
}
