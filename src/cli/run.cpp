// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/run.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/guard/guarded_command.hpp"
#include "cli/last_success.hpp"
#include "cli/rabbitmq.hpp"

namespace holdfast::cli {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_tuple = asio::as_tuple(asio::use_awaitable);

// While the command runs, these signals are passed on to it. Before that, they end the wait for the slot. A signal that
// was ignored at the start of the program stays ignored.
constexpr int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM};

bool is_ignored(int number) {
  struct sigaction now {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "an unknown host";
}

void say(const std::string& text) { std::fprintf(stderr, "holdfast: %s\n", printable(text).c_str()); }

class runner {
public:
  explicit runner(const run_options& options)
      : options_(options),
        guarded_({.arguments = options.arguments, .pass_stdin = options.pass_stdin, .grace = options.grace}),
        guard_descriptor_(io_, dup(guarded_.descriptor())),
        signals_(io_),
        renewal_(io_) {
    for (const int number : forwarded)
      if (!is_ignored(number)) signals_.add(number);
    signals_.add(SIGCONT);
  }

  int run() {
    asio::co_spawn(io_, handle_signals(), asio::detached);
    std::exception_ptr failure;
    asio::co_spawn(io_, take_run_release(), [&](std::exception_ptr failed) {
      failure = std::move(failed);
      signals_.cancel();
      renewal_.cancel();
    });
    io_.run();
    if (failure) std::rethrow_exception(failure);
    return status_;
  }

private:
  int failed() const { return options_.exit_status ? status_failed_itself : status_failed; }
  /// The status if there is no slot. Without an error, others hold all slots.
  int failed(const error_code& error) const {
    if (!options_.exit_status) return status_failed;
    return !error ? status_held : error == condition::unavailable ? status_unavailable : status_failed_itself;
  }

  void tell(const std::string& text) const {
    if (options_.verbose) say(text);
  }

  asio::awaitable<void> take_run_release() {
    if (options_.rabbitmq.is_used()) co_return co_await take_run_release_on_rabbitmq();
    consul::client& consul = consul_.emplace(io_, options_.consul);
    std::string node = options_.session_node.value_or(std::string(default_session_node));
    std::string fallback;  // said only if it helps: the token may lack another right
    slot held;
    for (;;) {
      make_lock(consul, node);
      diagnostics why;
      auto [error, got] = co_await acquire(why);
      if (!error && got) {
        held = std::move(got);
        break;
      }
      const bool other_node = error == error::permission_denied && !options_.session_node && !node.empty();
      co_await close_lock();
      if (stopped_by_ != 0) {
        status_ = 128 + stopped_by_;
        co_return;
      }
      if (!other_node) {
        say(error ? "no slot of " + options_.prefix + ": " + explain(error, why)
                  : "no slot of " + options_.prefix + " was free in time" + why.to_string());
        status_ = failed(error);
        co_return;
      }
      fallback = "the token has no right to the node \"" + node + "\" (" + explain(error, why) +
                 "); the session belongs to the agent's own node instead, so it ends when the agent leaves or restarts";
      node.clear();
    }
    if (!fallback.empty()) say(fallback);
    const bool is_to_run = co_await must_run();
    if (!is_to_run) {
      co_await release(held);
      held = slot();
      co_await close_lock();
      co_await remove_unused(consul);
      co_return;
    }
    const std::vector<int> files = held.maker_files();
    co_await run_command(held, files, [&] { return variables(held); });
    if (options_.once_per && started_ && status_ == status_ok) co_await record_success(held);
    co_await release(held);
    held = slot();
    co_await close_lock();
    if (status_ != status_lost && !options_.elects) co_await remove_unused(consul);
  }

  asio::awaitable<void> take_run_release_on_rabbitmq() {
    const auto log = [this](const log_event& event) { tell(event.text()); };
    const std::string& name = options_.prefix;
    const auto lock = make_rabbitmq_lock(io_.get_executor(), options_.rabbitmq, name, options_.limit, log);
    tell("waiting for a slot of " + name);
    const std::optional<std::chrono::nanoseconds> within = options_.no_wait ? 0ns : options_.timeout;
    rabbitmq_lock::result got;
    if (stopped_by_ == 0) got = co_await lock->acquire(within, stop_waiting_.slot());
    if (stopped_by_ != 0 && !got.held) {
      status_ = 128 + stopped_by_;
    } else if (!got.held) {
      say(got.error ? "no slot of " + name + ": " + explain(got.error, got.why)
                    : "no slot of " + name + " was free in time");
      status_ = failed(got.error);
    } else {
      std::vector<std::string> all{"HOLDFAST_NAME=" + name, "HOLDFAST_SLOT=" + std::to_string(got.number)};
      const std::vector<int> no_files;
      co_await run_command(*got.held, no_files, [&] { return all; });
      co_await release(*got.held);
    }
    got.held.reset();
    co_await lock->close();
  }

  // With --once-per, reads under the lock whether the command has succeeded recently. If it has, or if that cannot be
  // read, sets the status and returns false.
  asio::awaitable<bool> must_run() {
    if (!options_.once_per) co_return true;
    const std::string key = key_of_last_success(options_.prefix);
    diagnostics why;
    const consul::read_options options{.mode = consul::consistency::consistent, .request = {.diag = &why}};
    const auto [error, answer] = co_await consul_->get(key, options, as_tuple);
    const bool is_hidden = !error && answer.meta.filtered_by_acls;
    if (error || is_hidden) {
      say("cannot read when the command has last succeeded: " +
          (error ? explain(error, why) : "the ACL token may not read " + key));
      status_ = failed(error ? error : make_error_code(error::permission_denied));
      co_return false;
    }
    if (!answer.value) co_return true;
    const std::optional<last_success> record = parse_last_success(answer.value->value);
    if (!record) {
      say(key + " is no record of a success, so it does not count");
      co_return true;
    }
    if (is_recent(*record, std::chrono::system_clock::now(), *options_.once_per)) {
      tell("the command does not run: it has succeeded at " + shown(*record));
      status_ = status_done_already;
      co_return false;
    }
    if (record->at > std::chrono::system_clock::now())
      say("the last success is recorded in the future, so it does not count: " + shown(*record) +
          ". Compare the clocks of the hosts");
    co_return true;
  }

  // Records the success while the slot is certainly held. A repetition writes the same, so an unknown outcome is no
  // problem.
  asio::awaitable<void> record_success(const slot& held) {
    const last_success record{std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()), host_name()};
    const std::string key = key_of_last_success(options_.prefix);
    std::string problem = "the slot was lost";
    while (held.held()) {
      std::vector<consul::txn_operation> operations;
      try {
        operations = held.fence_checks();
      } catch (const boost::system::system_error&) {
        break;  // it was lost at this moment
      }
      operations.push_back(consul::txn_operation::set(key, format(record)));
      diagnostics why;
      const consul::request_options options{.diag = &why};
      const auto [error, reply] = co_await consul_->transact(std::move(operations), options, as_tuple);
      if (!error && reply.applied) {
        tell("the success is recorded in " + key);
        co_return;
      }
      if (error) problem = explain(error, why);
      if (!error && !reply.errors.empty()) problem = "Consul refuses it: " + reply.errors.front().text;
      if (!error || error != condition::unavailable) break;
      renewal_.expires_after(200ms);
      co_await renewal_.async_wait(as_tuple);
    }
    say("the command has succeeded, but this may not be recorded, so it may run again: " + problem);
    status_ = status_not_recorded;
  }

  // As `consul lock` does: a later command may use the prefix with another limit. A semaphore that an operator has
  // closed stays.
  asio::awaitable<void> remove_unused(consul::client& consul) {
    try {
      if (options_.limit == 1) {
        const std::string key = options_.prefix + "/.lock";
        const auto found = co_await consul.list(key);
        const bool is_unused = found.value.size() == 1 && found.value[0].key == key && found.value[0].session.empty();
        if (is_unused) co_await consul.remove_cas(key, found.value[0].modify_index);
        co_return;
      }
      administration_options which;
      which.prefix = options_.prefix;
      semaphore_administration admin(consul, std::move(which));
      const semaphore_status now = co_await admin.inspect();
      if (now.exists && !now.closed && now.holders.empty() && now.queue.empty()) co_await admin.destroy();
    } catch (const boost::system::system_error& failure) {
      tell(std::string("the keys stay: ") + failure.what());
    }
  }

  static std::string explain(const error_code& error, const diagnostics& why) {
    return error_with_diagnostics(error, why).what();
  }

  void make_lock(consul::client& consul, const std::string& node) {
    const auto log = [this](const log_event& event) { tell(event.text()); };
    if (options_.elects) {
      election_options what;
      what.key = options_.prefix;
      what.session_ttl = options_.ttl;
      what.session_node = node;
      what.log = log;
      lock_.emplace<election>(consul, std::move(what));
    } else if (options_.limit == 1) {
      mutex_options what;
      what.key = options_.prefix + "/.lock";
      what.description = options_.name;
      what.session_ttl = options_.ttl;
      what.session_node = node;
      what.log = log;
      lock_.emplace<mutex>(consul, std::move(what));
    } else {
      semaphore_options what;
      what.prefix = options_.prefix;
      what.limit = options_.limit;
      what.numbered = options_.numbered;
      what.description = options_.name;
      what.session_ttl = options_.ttl;
      what.session_node = node;
      what.log = log;
      lock_.emplace<semaphore>(consul, std::move(what));
    }
  }

  auto cancellable() { return asio::bind_cancellation_slot(stop_waiting_.slot(), as_tuple); }

  asio::awaitable<std::pair<error_code, slot>> acquire(diagnostics& why) {
    tell("waiting for a slot of " + options_.prefix);
    if (stopped_by_ != 0) co_return std::pair(error_code(asio::error::operation_aborted), slot());
    error_code error;
    slot got;
    if (election* race = std::get_if<election>(&lock_)) {
      const operation_options options{.diag = &why};
      leadership won;
      std::tie(error, won) = co_await race->campaign(options_.value, options, cancellable());
      got = std::move(won);
    } else if (mutex* one = std::get_if<mutex>(&lock_)) {
      const operation_options options{.diag = &why};
      held_mutex locked;
      if (options_.no_wait)
        std::tie(error, locked) = co_await one->try_lock(options, cancellable());
      else if (options_.timeout)
        std::tie(error, locked) = co_await one->try_lock_for(*options_.timeout, options, cancellable());
      else
        std::tie(error, locked) = co_await one->lock(options, cancellable());
      got = std::move(locked);
    } else {
      const acquire_options options{.diag = &why};
      semaphore& many = std::get<semaphore>(lock_);
      if (options_.no_wait)
        std::tie(error, got) = co_await many.try_acquire(options, cancellable());
      else if (options_.timeout)
        std::tie(error, got) = co_await many.try_acquire_for(*options_.timeout, options, cancellable());
      else
        std::tie(error, got) = co_await many.acquire(options, cancellable());
    }
    co_return std::pair(error, std::move(got));
  }

  asio::awaitable<void> close_lock() {
    if (mutex* one = std::get_if<mutex>(&lock_)) {
      co_await one->close(as_tuple);
    } else if (semaphore* many = std::get_if<semaphore>(&lock_)) {
      co_await many->close(as_tuple);
    }
    lock_ = std::monostate();
  }

  std::vector<std::string> variables(const slot& held) const {
    std::vector<std::string> all{"CONSUL_LOCK_HELD=true", "HOLDFAST_FENCING_TOKEN=" + held.fencing_token().to_string(),
                                 "HOLDFAST_PREFIX=" + options_.prefix,
                                 "HOLDFAST_LIMIT=" + std::to_string(options_.limit),
                                 "HOLDFAST_TTL=" + std::to_string(options_.ttl.count()) + "ms"};
    for (const consul::txn_operation& check : held.fence_checks())
      if (!check.session.empty()) all.push_back("HOLDFAST_SESSION=" + check.session);
    if (options_.limit == 1) all.push_back("HOLDFAST_KEY=" + options_.prefix + (options_.elects ? "" : "/.lock"));
    for (const std::uint32_t number : held.numbers()) all.push_back("HOLDFAST_SLOT=" + std::to_string(number));
    return all;
  }

  // A slot that another process has granted has a short lease until this process has accepted it, about 0.1 s later.
  // Such a lease is no time for a command: SIGTERM would come at once or very soon.
  asio::awaitable<void> wait_for_whole_lease(const hold& held) {
    const std::chrono::nanoseconds least = options_.grace + 1s;
    while (held.held() && held.valid_for() < least && stopped_by_ == 0) {
      renewal_.expires_after(10ms);
      co_await renewal_.async_wait(as_tuple);
    }
  }

  // `variables` returns those of the command, or throws if the slot is lost.
  asio::awaitable<void> run_command(hold& held, std::vector<int> files,
                                    std::function<std::vector<std::string>()> variables) {
    co_await wait_for_whole_lease(held);
    std::vector<std::string> environment;
    try {
      environment = variables();
    } catch (const boost::system::system_error& lost) {
      say(std::string("the slot was lost before the command began: ") + lost.what());
      status_ = status_lost;
      co_return;
    }
    if (stopped_by_ != 0) {  // a signal that came when the slot was granted
      status_ = 128 + stopped_by_;
      co_return;
    }
    running_ = true;
    guarded_.start(environment, lease_end(held), files);
    asio::co_spawn(io_, pass_on_renewals(held), asio::detached);
    asio::co_spawn(io_, watch_for_loss(held), asio::detached);
    asio::co_spawn(io_, watch_for_revocation(held), asio::detached);
    co_await watch_command();
    running_ = false;
    renewal_.cancel();
    if (started_ && (lost_ || !held.held())) {
      if (!lost_) say("the slot was lost: " + std::string(to_string(held.lost_because())));
      status_ = status_lost;
    }
  }

  asio::awaitable<void> release(hold& held) {
    const bool was_held = held.held();
    auto [error] = co_await held.release(as_tuple);
    if (error && was_held)
      say("the slot could not be released, and is free when its session expires: " + error.message());
    if (!error) tell("released");
  }

  // The clock is read first: if this process is stopped between the two, the result is too early, not too late.
  static std::chrono::nanoseconds lease_end(const hold& held) {
    const std::chrono::nanoseconds now = boot_time();
    return now + held.valid_for();
  }

  // The guard learns the end of the lease about this often, while the slot is held.
  std::chrono::nanoseconds tick() const { return std::min<std::chrono::nanoseconds>(options_.ttl / 30, 1s); }

  asio::awaitable<void> pass_on_renewals(const hold& held) {
    while (running_ && held.held()) {
      guarded_.set_lease_end(lease_end(held));
      renewal_.expires_after(tick());
      co_await renewal_.async_wait(as_tuple);
    }
  }

  asio::awaitable<void> watch_for_loss(const hold& held) {
    auto [error, reason] = co_await held.wait_lost(as_tuple);
    if (error || !running_) co_return;
    lost_ = true;
    const std::string details = held.loss_details().to_string();
    say("the slot is lost: " + std::string(to_string(reason)) + (details.empty() ? "" : " (" + details + ")") +
        "; the command is killed");
    guarded_.kill();
  }

  asio::awaitable<void> watch_for_revocation(const hold& held) {
    auto [error] = co_await held.wait_revoked(as_tuple);
    if (error || !running_) co_return;
    say("an operator asks for the slot: SIGTERM to the command");
    guarded_.forward(SIGTERM);
  }

  asio::awaitable<void> watch_command() {
    using kind = guard_event::kind;
    for (;;) {
      const auto event = guarded_.receive();
      if (!event) {
        co_await guard_descriptor_.async_wait(asio::posix::stream_descriptor::wait_read, as_tuple);
        continue;
      }
      switch (event->what) {
        case kind::started:
          started_ = true;
          tell("the command runs as process " + std::to_string(event->value));
          break;
        case kind::not_started:
          say("cannot run " + options_.arguments.front() + ": " +
              std::system_category().message(static_cast<int>(event->value)));
          status_ = failed();
          co_return;
        case kind::lease_ends:
          lost_ = true;
          say("the session was not renewed in time; the command is asked to end before the lease is over");
          break;
        case kind::stopped:
          kill(0, SIGTSTP);  // the whole job stops, as the shell expects
          break;
        case kind::exited:
          set_status(static_cast<int>(event->value));
          break;
        case kind::ended:
          co_return;
        case kind::guard_gone:
          say("the guard process has died; the command is killed");
          status_ = status_lost;
          co_await end_group();
          co_return;
      }
    }
  }

  asio::awaitable<void> end_group() {
    asio::steady_timer pause(io_);
    while (!guarded_.end_group()) {
      pause.expires_after(10ms);
      co_await pause.async_wait(as_tuple);
    }
  }

  void set_status(int status) {
    const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
    if (failed)
      tell(WIFEXITED(status) ? "the command ended with status " + std::to_string(WEXITSTATUS(status))
                             : "the command was ended by signal " + std::to_string(WTERMSIG(status)));
    if (options_.exit_status)
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    else
      status_ = failed && options_.child_exit_code ? status_child_failed : status_ok;
  }

  asio::awaitable<void> handle_signals() {
    for (;;) {
      auto [error, number] = co_await signals_.async_wait(as_tuple);
      if (error) co_return;
      if (number == SIGCONT) {
        if (running_) guarded_.resume();
        continue;
      }
      if (!running_) {
        if (stopped_by_ == 0) stopped_by_ = number;
        stop_waiting_.emit(asio::cancellation_type::terminal);
        continue;
      }
      if (number != SIGTERM) guarded_.forward(number);
      if (number == SIGTERM || number == SIGHUP) guarded_.stop();  // SIGTERM, and SIGKILL after the grace
    }
  }

  const run_options& options_;
  guarded_command guarded_;  // before anything that may start a thread
  asio::io_context io_{1};
  asio::posix::stream_descriptor guard_descriptor_;
  asio::signal_set signals_;
  asio::steady_timer renewal_;
  asio::cancellation_signal stop_waiting_;
  std::optional<consul::client> consul_;
  std::variant<std::monostate, mutex, semaphore, election> lock_;
  int status_ = status_ok;
  int stopped_by_ = 0;
  bool running_ = false, started_ = false, lost_ = false;
};

}  // namespace

std::string host_and_pid() { return host_name() + ":" + std::to_string(getpid()); }

int run(const run_options& options) {
  try {
    return runner(options).run();
  } catch (const std::exception& failure) {
    say(failure.what());
    return options.exit_status ? status_failed_itself : status_failed;
  }
}

}  // namespace holdfast::cli
