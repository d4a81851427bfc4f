// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/command_line.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <holdfast/consul/config.hpp>
#include <holdfast/version.hpp>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/export.hpp"
#include "cli/operate.hpp"
#include "cli/run.hpp"
#include "cli/serve_fake.hpp"

namespace holdfast::cli {

namespace {

constexpr const char* group_of_consul = "Consul";

/// The flags that say which Consul to use. They come before the environment variables.
struct connection_flags {
  std::string http_addr, token, token_file, datacenter, ca_file, ca_path, client_cert, client_key, tls_server_name;
  bool stale = false;

  void add_to(CLI::App& app) {
    const auto text = [&app](const char* name, std::string& value, const char* help) {
      app.add_option(name, value, help)->group(group_of_consul);
    };
    text("--http-addr", http_addr, "The agent: HOST:PORT, http://..., https://... or unix://PATH (CONSUL_HTTP_ADDR)");
    text("--token", token, "The ACL token (CONSUL_HTTP_TOKEN). Other users can see it: --token-file is safer");
    text("--token-file", token_file, "A file with the ACL token (CONSUL_HTTP_TOKEN_FILE)");
    text("--datacenter", datacenter, "The datacenter of the lock and of its session");
    text("--ca-file", ca_file, "The certificate authorities to trust (CONSUL_CACERT)");
    text("--ca-path", ca_path, "A folder with certificate authorities to trust (CONSUL_CAPATH)");
    text("--client-cert", client_cert, "The client's certificate (CONSUL_CLIENT_CERT)");
    text("--client-key", client_key, "The key of the client's certificate (CONSUL_CLIENT_KEY)");
    text("--tls-server-name", tls_server_name, "The name in the agent's certificate (CONSUL_TLS_SERVER_NAME)");
    app.add_flag("--stale", stale, "Accepted for consul lock's sake, without effect")->group(group_of_consul);
  }

  consul::config config() const {
    consul::config found = consul::config::from_environment();
    if (!http_addr.empty()) {
      found.address = http_addr;
      found.addresses.clear();
    }
    if (!token.empty()) {
      found.token = token;
      found.token_file.clear();
    }
    if (!token_file.empty()) found.token_file = token_file;
    found.new_token_grace = {};  // a wrong token is reported at once
    if (!datacenter.empty()) found.datacenter = datacenter;
    if (!ca_file.empty()) found.tls.ca_file = ca_file;
    if (!ca_path.empty()) found.tls.ca_path = ca_path;
    if (!client_cert.empty()) found.tls.certificate_file = client_cert;
    if (!client_key.empty()) found.tls.key_file = client_key;
    if (!tls_server_name.empty()) found.tls.server_name = tls_server_name;
    return found;
  }
};

/// The flags that say which RabbitMQ to use instead of Consul.
struct rabbitmq_flags {
  rabbitmq_options its;
  std::string lease = "10s";

  void add_to(CLI::App& app) {
    const auto text = [&app](const char* name, std::string& value, const char* help) {
      return app.add_option(name, value, help)->group("RabbitMQ");
    };
    text("--rabbitmq", its.url, "Use a semaphore on this broker, not in Consul: amqp://USER@HOST:PORT/VHOST");
    text("--password-file", its.password_file, "A file with the password of the user of --rabbitmq");
    text("--lease", lease, "The lease of the semaphore; all must use the same")->capture_default_str();
    app.add_flag("--letter-first", its.letter_first, "Its queues are named NAME-A-1, not NAME-1-A")->group("RabbitMQ");
  }
  rabbitmq_options options() const {
    rabbitmq_options found = its;
    found.lease = std::chrono::duration_cast<std::chrono::milliseconds>(parse_duration(lease));
    return found;
  }
};

/// An exit status and its meaning, for the manual.
struct meaning {
  const char* status;
  const char* text;
};

constexpr meaning meanings_of_run[] = {
    {"0", "The command ran. Its own status does not matter, unless a flag below says so."},
    {"1",
     "The command did not run: wrong flags, no slot in time, no Consul, no such program. With --exit-status or "
     "--once-per, all but wrong flags: one of 120, 121, 122 and 125."},
    {"2", "With --child-exit-code: the command failed."},
    {"120", "With --once-per: the command did not run, because it has succeeded recently."},
    {"121", "With --exit-status or --once-per: others held all slots for too long. The command did not run."},
    {"122", "With --exit-status or --once-per: Consul could not be reached. The command did not run."},
    {"123", "With --once-per: the command has succeeded, but this may not be recorded, so it may run again."},
    {"124", "The command was ended: the slot was lost, its session was not renewed in time, or the guard was killed."},
    {"125", "With --exit-status or --once-per: the command did not run for another reason."},
    {"128+n", "Signal n came while the program waited. The command did not run."},
    {"other", "With --exit-status or --once-per: the status of the command, or 128+n if signal n has ended it."},
};
constexpr meaning meanings_of_verify[] = {
    {"0", "The slot is held at this moment."},
    {"1", "The slot is not held."},
    {"3", "Consul could not be asked."},
};
constexpr meaning meanings_of_others[] = {
    {"0", "The command was carried out."},
    {"1", "It failed, it was not confirmed, or (inspect, explain) there is no such lock."},
};

boost::json::array described(const meaning* begin, const meaning* end) {
  boost::json::array out;
  for (; begin != end; ++begin) out.push_back({begin->status, begin->text});
  return out;
}

boost::json::array described(const std::string& command) {
  if (command == "run" || command == "elect") return described(std::begin(meanings_of_run), std::end(meanings_of_run));
  if (command == "verify") return described(std::begin(meanings_of_verify), std::end(meanings_of_verify));
  return described(std::begin(meanings_of_others), std::end(meanings_of_others));
}

boost::json::object described(const CLI::Option& option) {
  boost::json::array names;
  for (const std::string& name : option.get_snames()) names.emplace_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.emplace_back("--" + name);
  return {{"names", std::move(names)},
          {"argument", option.get_positional() ? option.get_name() : ""},
          {"takes_value", option.get_items_expected_max() != 0},
          {"default", option.get_default_str()},
          {"group", option.get_group()},
          {"text", option.get_description()}};
}

std::string without_leading_slash(std::string prefix) {
  if (prefix.starts_with('/')) prefix.erase(0, 1);
  if (prefix.ends_with('/')) prefix.pop_back();
  return prefix;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

class command_line {
public:
  command_line() : app_("Distributed semaphores and mutexes over Consul, for the shell.", "holdfast") {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", "holdfast " HOLDFAST_VERSION_STRING);
    add_run();
    add_elect();
    add_verify();
    const auto named = [this](operator_command::kind what, const char* help) { return add(what, help); };
    using kind = operator_command::kind;
    rabbitmq_.add_to(*named(kind::inspect, "Show who holds a slot, and who waits"));
    named(kind::watch, "Show it again after each change, until Ctrl-C");
    named(kind::top, "Show holders, queue and rates in the whole window, until Ctrl-C");
    named(kind::explain, "Tell why contenders wait, in sentences")
        ->add_option("session", operator_.session, "Only this waiter, from inspect; holders are always shown");
    CLI::App* const list =
        app_.add_subcommand("list", "List the semaphores, mutexes, elections and mutex sets below a folder");
    list->add_option("folder", operator_.prefix, "The folder; all of Consul if it is missing");
    list->add_flag("--json", operator_.json, "Print JSON, one object a line");
    connection_.add_to(*list);
    list->callback([this] { start(kind::list); });
    CLI::App* const create = named(kind::create, "Create a semaphore, unless it is there with this limit");
    add_limit(create);
    rabbitmq_.add_to(*create);
    add_limit(named(kind::resize, "Change the limit; all processes must use the recorded limit"));
    named(kind::close, "Grant nothing until open; holders keep their slots");
    named(kind::open, "Grant slots again");
    named(kind::drain, "Close, and wait until no slot is held")
        ->add_option("--within", within_, "Give up after this time, for example 30s");
    add_session(named(kind::revoke, "Ask the holder of a semaphore's slot to release it"));
    CLI::App* const evict = named(kind::evict, "Take the lock, or the place in the queue, away: end its session");
    add_session(evict);
    add_yes(evict);
    named(kind::sweep, "Remove what dead processes have left");
    CLI::App* const destroy = named(kind::destroy, "Remove a semaphore that nobody uses");
    destroy->add_flag("--even-in-use", operator_.even_in_use, "Also if it is in use: all slots are lost");
    add_yes(destroy);
    destroy->add_option("--overshoot", operator_.overshoot, "Also so many slots above the highest")->group("RabbitMQ");
    rabbitmq_.add_to(*destroy);
    add_rabbitmq(kind::grow, "Add slots to a semaphore on RabbitMQ")
        ->add_option("count", operator_.limit, "How many")
        ->required();
    add_rabbitmq(kind::shrink, "Remove the highest slots of a semaphore on RabbitMQ")
        ->add_option("count", operator_.limit, "How many")
        ->required();
    CLI::App* const wait = add_rabbitmq(kind::wait, "Wait until no slot on RabbitMQ is held, or this one is not");
    wait->add_option("slot", operator_.limit, "The number of the slot; all if it is missing");
    wait->add_option("--within", within_, "Give up after this time, for example 30s");
    add_export();
    CLI::App* const fake = app_.add_subcommand("serve-fake", "Run a model of Consul on 127.0.0.1, to try things out");
    fake->add_option("--port", port_, "The port; 0: any that is free")->capture_default_str();
    fake->callback([this] { status_ = serve_fake(port_); });
    // For the script that makes the manual and the completions.
    app_.add_subcommand("describe", "Print all commands and flags as JSON")->group("")->callback([this] {
      describe();
    });
  }

  int run(std::vector<std::string> words) {
    try {
      if (!words.empty() && (words.front() == "run" || words.front() == "elect")) words = translated(std::move(words));
      std::reverse(words.begin(), words.end());  // as CLI11 wants it
      app_.parse(std::move(words));
    } catch (const CLI::ParseError& stopped) {
      // Help and the version are such exceptions, too.
      const int status = app_.exit(stopped, std::cout, std::cerr);
      return status == 0 ? 0 : 1;
    } catch (const usage_error& wrong) {
      std::fprintf(stderr, "holdfast: %s\nholdfast COMMAND --help lists the flags.\n", wrong.what());
      return 1;
    }
    return status_;
  }

private:
  void add_run() {
    CLI::App* const run = app_.add_subcommand("run", "Run a command while it holds a slot, as consul lock does");
    run_ = run;
    run->footer(
        "Usage: holdfast run [FLAGS] PREFIX [--] COMMAND...\n"
        "Without --, the words of the command are joined, and $SHELL -c runs them. With --, they are run as they are.\n"
        "holdfast(1) lists the exit statuses.");
    run->add_option("-n", limit_text_, "How many may hold a slot at once")->capture_default_str();
    run->add_option("--name", name_, "The name of the session, for operators");
    run->add_option("--timeout,--try", timeout_, "Give up if there is no slot after this time");
    run->add_option("--monitor-retry", monitor_retry_, "Accepted for consul lock's sake, without effect");
    run->add_flag("--shell", shell_, "Use a shell (the default); --shell=false runs the words as they are");
    run->add_flag("--pass-stdin", run_options_.pass_stdin, "Give the command this program's stdin, not an empty one");
    run->add_flag("--child-exit-code", run_options_.child_exit_code, "Exit with 2 if the command fails");
    run->add_flag("--verbose", run_options_.verbose, "Report on stderr what happens");
    run->add_flag("--exit-status", run_options_.exit_status, "Exit with the command's own status");
    run->add_option("--once-per", once_per_,
                    "Do not run the command if it has succeeded within this time, for example 20h (with -n 1)");
    run->add_flag("--no-wait", run_options_.no_wait, "Give up at once if no slot is free");
    run->add_flag("--numbered", run_options_.numbered, "Ask for a numbered slot, in HOLDFAST_SLOT (with -n over 1)");
    run->add_option("--grace", grace_, "Time between SIGTERM and SIGKILL")->capture_default_str();
    run->add_option("--ttl", ttl_, "TTL of the session")->capture_default_str();
    run->add_option("--session-node", session_node_, "The node that the session belongs to; \"\": the agent's own");
    connection_.add_to(*run);
    rabbitmq_.add_to(*run);
    run->callback([this] { start_run(); });
  }

  void add_elect() {
    CLI::App* const elect = app_.add_subcommand("elect", "Run a command while this process is the leader");
    elect_ = elect;
    elect->footer(
        "Usage: holdfast elect [FLAGS] KEY [--] COMMAND...\n"
        "KEY is the key of the election. The command runs for one term at most, and as with holdfast run.");
    elect->add_option("--value", run_options_.value, "The value of the key while this process leads");
    elect->add_flag("--shell", shell_, "Use a shell (the default); --shell=false runs the words as they are");
    elect->add_flag("--pass-stdin", run_options_.pass_stdin, "Give the command this program's stdin, not an empty one");
    elect->add_flag("--verbose", run_options_.verbose, "Report on stderr what happens");
    elect->add_flag("--exit-status", run_options_.exit_status, "Exit with the command's own status");
    elect->add_option("--grace", grace_, "Time between SIGTERM and SIGKILL")->capture_default_str();
    elect->add_option("--ttl", ttl_, "TTL of the session")->capture_default_str();
    elect->add_option("--session-node", session_node_, "The node that the session belongs to; \"\": the agent's own");
    connection_.add_to(*elect);
    elect->callback([this] {
      run_options_.elects = true;
      start_run();
    });
  }

  void add_export() {
    CLI::App* const exporter =
        app_.add_subcommand("export", "Serve the state of semaphores to Prometheus, until Ctrl-C");
    exporter->footer(
        "The metrics are at /metrics. Each scrape reads each prefix once. Anybody who can connect to the address can "
        "read the metrics.");
    exporter->add_option("prefix", export_.prefixes, "The prefixes of semaphores and mutexes")->required();
    exporter->add_option("--listen", export_.listen, "The address; port 0: any that is free")->capture_default_str();
    connection_.add_to(*exporter);
    exporter->callback([this] {
      for (std::string& prefix : export_.prefixes) prefix = without_leading_slash(std::move(prefix));
      std::sort(export_.prefixes.begin(), export_.prefixes.end());
      export_.prefixes.erase(std::unique(export_.prefixes.begin(), export_.prefixes.end()), export_.prefixes.end());
      export_.consul = connection_.config();
      status_ = serve_metrics(export_);
    });
  }

  // CLI11 knows no long flags with one dash, and would take the flags of the command for ours.
  std::vector<std::string> translated(std::vector<std::string> words) {
    const std::string name_of_command = words.front();
    const CLI::App* const command = name_of_command == "run" ? run_ : elect_;
    words.erase(words.begin());
    const bool wants_help = !words.empty() && (words[0] == "-h" || words[0] == "-help" || words[0] == "--help");
    if (wants_help) return {name_of_command, "--help"};
    split_ = split_run(words, [command](const std::string& name) {
      const CLI::Option* const option = command->get_option_no_throw((name == "n" ? "-" : "--") + name);
      if (option == nullptr || name == "help") return flag_kind::unknown;
      return option->get_expected_max() == 0 || option->get_items_expected_max() == 0 ? flag_kind::boolean
                                                                                      : flag_kind::value;
    });
    std::vector<std::string> flags{name_of_command};
    for (std::string& flag : split_.flags) {
      if (flag.starts_with("--n=")) flag.replace(0, 4, "-n");
      const bool has_no_value = flag.ends_with('=');  // CLI11 takes an empty value only as an argument of its own
      if (has_no_value) flag.pop_back();
      flags.push_back(std::move(flag));
      if (has_no_value) flags.emplace_back();
    }
    return flags;
  }

  void start_run() {
    run_options& out = run_options_;
    if (split_.prefix.empty() || split_.command.empty()) throw usage_error("a prefix and a command are needed");
    if (!out.elects) out.rabbitmq = rabbitmq_.options();
    const bool is_on_rabbitmq = out.rabbitmq.is_used();
    out.prefix = is_on_rabbitmq ? split_.prefix : without_leading_slash(split_.prefix);
    const char* const end = limit_text_.data() + limit_text_.size();
    std::uint32_t limit = 0;
    const auto [stopped_at, bad] = std::from_chars(limit_text_.data(), end, limit);
    if (bad != std::errc() || stopped_at != end || limit < 1 || limit > 4200)
      throw usage_error("-n must be a number from 1 to 4200");
    out.limit = limit;
    if (!timeout_.empty()) {
      const auto timeout = parse_duration(timeout_);
      if (timeout.count() != 0) out.timeout = timeout;
    }
    if (!once_per_.empty()) {
      if (limit != 1 || is_on_rabbitmq) throw usage_error("--once-per needs -n 1, and Consul");
      out.once_per = parse_duration(once_per_);
      out.exit_status = true;
    }
    out.grace = std::chrono::duration_cast<std::chrono::milliseconds>(parse_duration(grace_));
    out.ttl = std::chrono::duration_cast<std::chrono::milliseconds>(parse_duration(ttl_));
    if (is_on_rabbitmq) out.ttl = out.rabbitmq.lease;
    const auto lease = out.ttl - out.ttl / 10;
    if (is_on_rabbitmq && run_->get_option("--grace")->count() == 0) out.grace = std::min(out.grace, lease / 3);
    if (out.grace > lease / 2)
      throw usage_error("--grace must be at most " + std::to_string(lease.count() / 2) +
                        "ms, half of the lease: a longer one needs a longer " + (is_on_rabbitmq ? "--lease" : "--ttl"));
    if ((out.elects ? elect_ : run_)->get_option("--session-node")->count() != 0) out.session_node = session_node_;
    std::string joined;
    for (const std::string& word : split_.command) joined += (joined.empty() ? "" : " ") + word;
    if (split_.direct || !shell_) {
      out.arguments = split_.command;
    } else {
      const std::string shell = variable("SHELL");
      out.arguments = {shell.empty() ? "/bin/sh" : shell, "-c", joined};
    }
    out.name = name_.empty() ? printable((out.elects ? "holdfast elect: '" : "holdfast run: '") +
                                         joined.substr(0, 200) + "' at '" + out.prefix + "' by " + host_and_pid())
                             : name_;
    if (!is_on_rabbitmq) out.consul = connection_.config();
    status_ = cli::run(out);
  }

  CLI::App* add(operator_command::kind what, const char* help) {
    CLI::App* const command = app_.add_subcommand(std::string(to_string(what)), help);
    using kind = operator_command::kind;
    const bool is_for_all = what == kind::inspect || what == kind::watch || what == kind::top ||
                            what == kind::explain || what == kind::evict;
    command
        ->add_option(
            "prefix", operator_.prefix,
            is_for_all ? "The prefix of the semaphore, or the key of another lock" : "The prefix of the semaphore")
        ->required();
    command->add_flag("--json", operator_.json, "Print JSON, one object a line");
    connection_.add_to(*command);
    command->callback([this, what] { start(what); });
    return command;
  }

  CLI::App* add_rabbitmq(operator_command::kind what, const char* help) {
    CLI::App* const command = app_.add_subcommand(std::string(to_string(what)), help);
    command->add_option("name", operator_.prefix, "The name of the semaphore")->required();
    command->add_flag("--json", operator_.json, "Print JSON");
    rabbitmq_.add_to(*command);
    command->get_option("--rabbitmq")->required();
    command->callback([this, what] { start(what); });
    return command;
  }

  void describe() const {
    boost::json::array commands;
    for (const CLI::App* const command : app_.get_subcommands(nullptr)) {
      if (command->get_group().empty()) continue;
      boost::json::array options;
      for (const CLI::Option* const option : command->get_options(nullptr)) options.push_back(described(*option));
      commands.push_back(boost::json::object{{"name", command->get_name()},
                                             {"text", command->get_description()},
                                             {"footer", command->get_footer()},
                                             {"options", std::move(options)},
                                             {"statuses", described(command->get_name())}});
    }
    std::cout << boost::json::serialize(boost::json::object{{"version", HOLDFAST_VERSION_STRING},
                                                            {"text", app_.get_description()},
                                                            {"commands", std::move(commands)}})
              << std::endl;
  }

  void add_limit(CLI::App* command) {
    command->add_option("limit", operator_.limit, "The number of slots")->required();
  }

  void add_yes(CLI::App* command) { command->add_flag("--yes", operator_.yes, "Do not ask"); }

  void add_session(CLI::App* command) {
    command
        ->add_option("session", operator_.session, "The whole session of the holder (evict: or waiter), from inspect")
        ->required();
  }

  void add_verify() {
    CLI::App* const verify = app_.add_subcommand("verify", "Ask Consul whether the slot of this command is held");
    verify->footer(
        "Inside of `holdfast run`. Status 0: held at this moment; 1: not held; 3: Consul could not be asked.");
    verify->add_flag("--json", operator_.json, "Print JSON");
    connection_.add_to(*verify);
    verify->callback([this] {
      operator_.prefix = variable("HOLDFAST_PREFIX");
      operator_.key = variable("HOLDFAST_KEY");
      operator_.session = variable("HOLDFAST_SESSION");
      operator_.limit = static_cast<std::uint32_t>(std::strtoul(variable("HOLDFAST_LIMIT").c_str(), nullptr, 10));
      if (operator_.prefix.empty() || operator_.session.empty()) {
        std::fprintf(stderr, "holdfast: HOLDFAST_PREFIX and HOLDFAST_SESSION are not set; holdfast run sets them\n");
        status_ = status_unknown;
        return;
      }
      start(operator_command::kind::verify);
    });
  }

  void start(operator_command::kind what) {
    operator_.what = what;
    operator_.rabbitmq = rabbitmq_.options();
    if (!within_.empty()) operator_.within = parse_duration(within_);
    if (!operator_.rabbitmq.is_used()) {
      operator_.prefix = without_leading_slash(operator_.prefix);
      operator_.consul = connection_.config();
    }
    status_ = operate(operator_);
  }

  CLI::App app_;
  CLI::App *run_ = nullptr, *elect_ = nullptr;
  connection_flags connection_;
  rabbitmq_flags rabbitmq_;
  run_options run_options_;
  export_options export_;
  operator_command operator_;
  run_arguments split_;
  std::string limit_text_ = "1", name_, timeout_, once_per_, monitor_retry_, grace_ = "5s", ttl_ = "15s", session_node_,
              within_;
  bool shell_ = true;
  std::uint16_t port_ = 8500;
  int status_ = 0;
};

}  // namespace

int main(std::vector<std::string> words) { return command_line().run(std::move(words)); }

}  // namespace holdfast::cli
