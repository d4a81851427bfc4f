// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "differential/support/differential.hpp"

#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <list>
#include <map>
#include <optional>
#include <random>
#include <stdexcept>

#include "consul/encoding/url.hpp"
#include "support/idle.hpp"
#include "testing/api.hpp"

namespace holdfast::test {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
namespace json = boost::json;
using testing::detail::api_answer;
using testing::detail::api_reply;
using testing::detail::api_request;
using kind = operation_step::kind;

constexpr const char* key_names[] = {"a", "ab", "abc", "b", "b/1", "b/2", "b/2/x", "c/d/e", "c/d/f g", "c/e"};
constexpr const char* prefix_names[] = {"", "a", "ab", "b", "b/", "b/2", "c/", "c/d", "c/d/", "z", "c/d/e/"};
constexpr const char* values[] = {"", "x", "yy", "null"};
constexpr std::uint64_t flag_values[] = {0, 1, 16210313421097356768u};
// Two of them are one node, since case does not count.
constexpr const char* node_names[] = {"n", "no", "N"};
constexpr const char* addresses[] = {"10.0.0.1", "10.0.0.2"};
constexpr std::size_t session_count = 4;
// How long the agent may take to wake up where the model did. With a defect, and during shrinking, many sequences fail
// by this limit.
constexpr int patient_ms = 5'000;
constexpr int hasty_ms = 300;
constexpr int reply_ms = 30'000;

template <class Array>
auto pick(const Array& from, std::uint8_t number) {
  return from[number % std::size(from)];
}

/// The fields that an operation of this verb sends besides its name. The switch has no default, so that a new verb is
/// not forgotten. Without its fields, a verb would be compared where it does nothing.
struct fields {
  bool prefix = false;  ///< in the place of a key
  bool value = false;   ///< and flags
  bool session = false;
  bool index = false;
};
constexpr fields fields_of(kv_verb verb) {
  switch (verb) {
    case kv_verb::lock:
    case kv_verb::unlock:
      return {.value = true, .session = true};
    case kv_verb::cas:
      return {.value = true, .index = true};
    case kv_verb::set:
      return {.value = true};
    case kv_verb::check_session:
      return {.session = true};
    case kv_verb::check_index:
    case kv_verb::remove_cas:
      return {.index = true};
    case kv_verb::get_tree:
    case kv_verb::remove_tree:
      return {.prefix = true};
    case kv_verb::check_not_exists:
    case kv_verb::remove:
    case kv_verb::get:
      return {};
  }
  return {};
}

bool is_delete_tree(const operation_step& part) { return pick(kv_verbs, part.option) == kv_verb::remove_tree; }

// --- Making sequences

class generator {
public:
  explicit generator(std::uint64_t seed) : random_(seed) {}

  operation_step step() {
    // There are few sessions and many writes. Watches are frequent enough for most writes to wake one.
    static constexpr std::pair<kind, int> weights[] = {
        {kind::put, 12},           {kind::cas, 8},           {kind::acquire, 12},
        {kind::release, 6},        {kind::remove, 8},        {kind::remove_cas, 4},
        {kind::remove_tree, 3},    {kind::get, 4},           {kind::raw, 1},
        {kind::list, 4},           {kind::keys, 4},          {kind::txn, 16},
        {kind::create_session, 8}, {kind::renew_session, 1}, {kind::destroy_session, 4},
        {kind::session, 1},        {kind::sessions, 1},      {kind::watch_key, 6},
        {kind::watch_list, 6},     {kind::watch_keys, 3},    {kind::watch_session, 2},
        {kind::watch_sessions, 1}, {kind::register_node, 6}, {kind::deregister_node, 3},
        {kind::node, 1},           {kind::nodes, 1},         {kind::node_sessions, 1},
        {kind::watch_node, 1},     {kind::watch_nodes, 1},   {kind::watch_node_sessions, 2}};
    int total = 0;
    for (const auto& [what, weight] : weights) total += weight;
    int at = static_cast<int>(random_() % static_cast<unsigned>(total));
    operation_step step;
    for (const auto& [what, weight] : weights) {
      step.what = what;
      at -= weight;
      if (at < 0) break;
    }
    fill(step);
    if (step.what == kind::txn) {
      const std::size_t count = 1 + random_() % 5;
      for (std::size_t i = 0; i < count; ++i) {
        step.parts.emplace_back();
        fill(step.parts.back());
        // The model does not cover one case: a transaction deletes a tree that it has touched before. Consul then
        // forgets to wake some watches.
        if (i > 0 && is_delete_tree(step.parts.back())) step.parts.back().option = 0;
      }
    }
    return step;
  }

private:
  void fill(operation_step& step) {
    step.key = static_cast<std::uint8_t>(random_());
    step.value = static_cast<std::uint8_t>(random_());
    step.flags = static_cast<std::uint8_t>(random_());
    step.session = static_cast<std::uint8_t>(random_() % session_count);
    step.option = static_cast<std::uint8_t>(random_());
    static constexpr enum operation_step::index indexes[] = {
        operation_step::index::current, operation_step::index::current, operation_step::index::none,
        operation_step::index::older, operation_step::index::newer};
    step.index = indexes[random_() % std::size(indexes)];
  }

  std::mt19937_64 random_;
};

// --- The agent

// One keep-alive connection, blocking.
class connection {
public:
  explicit connection(const asio::ip::tcp::endpoint& agent) : socket_(io_) {
    socket_.connect(agent);
    socket_.set_option(asio::ip::tcp::no_delay(true));
  }

  void send(const api_request& what) {
    http::request<http::string_body> request;
    request.method_string(what.method);
    request.target(what.target);
    request.set(http::field::host, "agent");
    request.body() = what.body;
    request.prepare_payload();
    http::write(socket_, request);
  }

  int socket() { return socket_.native_handle(); }

  bool readable(int timeout_ms) {
    pollfd each{socket_.native_handle(), POLLIN, 0};
    return ::poll(&each, 1, timeout_ms) > 0;
  }

  api_reply receive() {
    if (!readable(reply_ms)) throw std::runtime_error("no reply");
    http::response_parser<http::string_body> parser;
    parser.body_limit(64u << 20);
    http::read(socket_, buffer_, parser);
    api_reply reply;
    reply.status = parser.get().result_int();
    for (const auto& field : parser.get()) reply.headers.emplace_back(field.name_string(), field.value());
    reply.body = std::move(parser.get().body());
    return reply;
  }

private:
  asio::io_context io_;
  asio::ip::tcp::socket socket_;
  boost::beast::flat_buffer buffer_;
};

std::optional<std::string> header(const api_reply& reply, std::string_view name) {
  for (const auto& [each, value] : reply.headers)
    if (boost::beast::iequals(each, boost::beast::string_view(name.data(), name.size()))) return value;
  return std::nullopt;
}

// --- Comparing

// Maps the indexes of the agent to those of the model. Both only grow, so the pairs must be in the same order.
class index_pairs {
public:
  bool agree(std::uint64_t agents, std::uint64_t models) {
    if (agents <= 1 || models <= 1) return agents == models;
    const auto [at, is_new] = pairs_.try_emplace(agents, models);
    if (at->second != models) return false;
    if (!is_new) return true;
    const bool after_previous = at == pairs_.begin() || std::prev(at)->second < models;
    const bool before_next = std::next(at) == pairs_.end() || models < std::next(at)->second;
    if (!after_previous || !before_next) pairs_.erase(at);
    return after_previous && before_next;
  }

private:
  std::map<std::uint64_t, std::uint64_t> pairs_;
};

bool is_index(json::string_view name) { return name == "CreateIndex" || name == "ModifyIndex"; }

bool is_nothing(const json::value& value) {
  return value.is_null() || (value.is_string() && value.get_string().empty());
}

std::uint64_t unsigned_of(const json::value& value) {
  return value.is_uint64() ? value.get_uint64() : static_cast<std::uint64_t>(value.get_int64());
}

}  // namespace

std::vector<operation_step> random_sequence(std::uint64_t seed, std::size_t length) {
  generator make(seed);
  std::vector<operation_step> out;
  out.reserve(length);
  for (std::size_t i = 0; i < length; ++i) out.push_back(make.step());
  return out;
}

struct comparison::state {
  explicit state(const test::agent& with)
      : endpoint(asio::ip::make_address(with.host()), with.http_port()),
        agent(with.pid()),
        own_node(with.node_name()),
        requests(endpoint) {
    wait_for_own_node();
  }

  // The agent and its leader both register a new agent's node, one after the other. The model does not.
  void wait_for_own_node() {
    const std::string target = "/v1/catalog/node/" + own_node;
    for (std::string index;;) {
      requests.send({"GET", target + index, ""});
      const api_reply reply = requests.receive();
      const json::value found = json::parse(reply.body);
      const bool by_agent = found.is_object() && found.at("Node").at("TaggedAddresses").is_object();
      if (by_agent && found.at("Services").as_object().contains("consul")) return;
      index = "?wait=1s&index=" + header(reply, "X-Consul-Index").value_or("0");
    }
  }

  // Returns when the agent has processed what was sent on that connection, and when all woken queries have read.
  void wait_for_agent(connection& line) const {
    wait_until_idle(agent, line.socket(), std::chrono::steady_clock::now() + std::chrono::milliseconds(reply_ms));
  }

  asio::ip::tcp::endpoint endpoint;
  pid_t agent;
  std::string own_node;
  connection requests;
  std::list<connection> unused_watches;
  // The number of sequences in this process, which is part of their prefixes. The one agent of the process remembers
  // what was deleted below a prefix.
  inline static std::uint64_t sequences = 0;
  int patience_ms = patient_ms;
  std::size_t operations = 0;
  std::size_t wakes = 0;
};

namespace {

// Thrown where the agent and the model disagree.
struct disagreement : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One run of one sequence.
class run_of_sequence {
public:
  run_of_sequence(comparison::state& shared, testing::defect broken)
      : shared_(shared),
        prefix_("differential/" + std::to_string(++shared.sequences) + "/"),
        model_(make_model(shared.own_node, broken)) {}

  void run(const std::vector<operation_step>& sequence) {
    // Creates a key, a session and a node of the sequence's own. From here on the indexes of both sides belong to its
    // changes.
    exchange({"PUT", kv("!"), "begin"});
    create_session(0);
    destroy_session(0);
    for (const kind what : {kind::register_node, kind::deregister_node}) step({.what = what});
    for (const operation_step& each : sequence) {
      step(each);
      settle();
    }
    finish();
  }

  ~run_of_sequence() {
    // The agent is left as it was found, even after a failure.
    try {
      for (const auto& [mine, agents] : session_of_agent_) ask_agent({"PUT", "/v1/session/destroy/" + agents, ""});
      for (const char* const name : node_names) ask_agent(deregistration_of(prefix_ + name));
      ask_agent({"DELETE", "/v1/kv/" + prefix_ + "?recurse", ""});
      // NOLINTNEXTLINE(bugprone-empty-catch): an agent that does not answer has failed the test before
    } catch (const std::exception&) {
    }
  }

private:
  struct pending_watch {
    api_request agents, models;
    std::list<connection> line;
    testing::store::watch_id id = 0;
    bool due = false;  // the model has answered: the agent must
    api_reply reply;
  };

  static testing::store make_model(const std::string& own_node, testing::defect broken) {
    testing::store model(
        {.node = own_node, .session_ttl_min = std::chrono::milliseconds(10), .version = consul_programs_version()});
    model.break_rule(broken);
    return model;
  }

  std::string kv(std::string_view name) const {
    std::string out = "/v1/kv/";
    consul::detail::append_encoded_key(out, prefix_ + std::string(name));
    return out;
  }
  std::string key_of(const operation_step& s) const { return pick(key_names, s.key); }
  std::string prefix_of(const operation_step& s) const { return pick(prefix_names, s.key); }

  // --- One request to both

  api_reply ask_agent(const api_request& request) {
    changed_ = changed_ || request.method != "GET";
    shared_.requests.send(request);
    return shared_.requests.receive();
  }

  std::pair<api_reply, api_reply> exchange(const api_request& agents, const api_request& models) {
    ++shared_.operations;
    std::pair<api_reply, api_reply> replies{ask_agent(agents), api_.handle(models, now_).reply};
    compare(agents, replies.first, replies.second);
    return replies;
  }
  std::pair<api_reply, api_reply> exchange(const api_request& same) { return exchange(same, same); }

  [[noreturn]] void disagree(const api_request& request, const std::string& what, const api_reply& agents,
                             const api_reply& models) const {
    const auto shown = [](const api_reply& reply) {
      return std::to_string(reply.status) + " index " + header(reply, "X-Consul-Index").value_or("-") + " " +
             reply.body;
    };
    throw disagreement(request.method + " " + request.target + " " + request.body + "\n  " + what +
                       "\n  Consul: " + shown(agents) + "\n  model:  " + shown(models) + "\n");
  }

  void compare(const api_request& request, const api_reply& agents, const api_reply& models) {
    if (agents.status != models.status) disagree(request, "the statuses differ", agents, models);
    const auto agents_index = header(agents, "X-Consul-Index"), models_index = header(models, "X-Consul-Index");
    if (agents_index.has_value() != models_index.has_value() ||
        (agents_index && !indexes_.agree(std::stoull(*agents_index), std::stoull(*models_index))))
      disagree(request, "the indexes differ", agents, models);
    boost::system::error_code ec1, ec2;
    const json::value a = json::parse(agents.body, ec1), m = json::parse(models.body, ec2);
    std::string where;
    if (ec1 || ec2 ? translated(agents.body) != models.body : !same(a, m, "", where))
      disagree(request, "the bodies differ" + (where.empty() ? where : " at " + where), agents, models);
  }

  // Replaces the agent's session ids by the model's.
  std::string translated(std::string text) const {
    for (const auto& [mine, agents] : session_of_agent_) {
      for (std::size_t at; (at = text.find(agents)) != std::string::npos;) text.replace(at, agents.size(), mine);
    }
    return text;
  }

  // Texts contain indexes, too. These are compared as indexes.
  bool same_text(std::string agents, std::string models) {
    static constexpr std::string_view before = ", current modify index ";
    const auto at_agents = agents.find(before), at_models = models.find(before);
    if (at_agents != std::string::npos && at_agents == at_models) {
      if (!indexes_.agree(std::stoull(agents.substr(at_agents + before.size())),
                          std::stoull(models.substr(at_models + before.size()))))
        return false;
      agents.erase(at_agents);
      models.erase(at_models);
    }
    return translated(agents) == models;
  }

  bool same(const json::value& a, const json::value& m, json::string_view name, std::string& where) {
    where = std::string(name);
    if (is_nothing(a) && is_nothing(m)) return true;
    if (a.is_number() && m.is_number())
      return is_index(name) ? indexes_.agree(unsigned_of(a), unsigned_of(m)) : unsigned_of(a) == unsigned_of(m);
    if (a.kind() != m.kind()) return false;
    if (a.is_string()) {
      if (name == "ID") return translated(std::string(a.get_string())) == std::string_view(m.get_string());
      return same_text(std::string(a.get_string()), std::string(m.get_string()));
    }
    if (a.is_array()) return same_arrays(a.get_array(), m.get_array(), name, where);
    if (a.is_object()) {
      if (a.get_object().size() != m.get_object().size()) return false;
      for (const auto& [field, value] : a.get_object()) {
        const json::value* const other = m.get_object().if_contains(field);
        if (!other || !same(value, *other, field, where)) return false;
      }
      return true;
    }
    return a == m;
  }

  // The agent says more about its own node than the model knows.
  bool is_own_node(const json::value& listed) const {
    const json::object* const node = listed.if_object();
    return node && node->contains("Address") && node->at("Node") == json::string(shared_.own_node);
  }

  bool same_arrays(json::array a, json::array m, json::string_view name, std::string& where) {
    for (json::array* const list : {&a, &m})
      list->erase(std::remove_if(list->begin(), list->end(), [this](const auto& each) { return is_own_node(each); }),
                  list->end());
    if (a.size() != m.size()) return false;
    // Sessions are listed in the order of their random ids.
    const auto by_id = [&](const json::value& x, const json::value& y) {
      return translated(std::string(x.at("ID").get_string())) < translated(std::string(y.at("ID").get_string()));
    };
    if (!a.empty() && a[0].is_object() && a[0].get_object().contains("LockDelay")) {
      std::sort(a.begin(), a.end(), by_id);
      std::sort(m.begin(), m.end(), by_id);
    }
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!same(a[i], m[i], name, where)) return false;
    return true;
  }

  // --- Steps

  // Sends both sides the same request, except for session ids and indexes.
  struct both {
    api_request agents, models;
  };
  both request(std::string_view method, const std::string& target) const {
    return {{std::string(method), target, ""}, {std::string(method), target, ""}};
  }

  const std::pair<std::string, std::string>& session(std::uint8_t number) const {
    static const std::pair<std::string, std::string> nobody{"00000000-0000-0000-0000-000000000000",
                                                            "00000000-0000-0000-0000-000000000000"};
    const auto at = sessions_.find(number);
    return at == sessions_.end() ? nobody : at->second;
  }

  // Returns a check's index in the numbers of each side.
  std::pair<std::uint64_t, std::uint64_t> index_for(const operation_step& s) {
    using index = enum operation_step::index;
    if (s.index == index::none) return {0, 0};
    const std::string target = kv(key_of(s));
    const std::uint64_t of_model = api_model_index(key_of(s));
    std::uint64_t of_agent = 0;
    if (of_model != 0) {
      const api_reply reply = ask_agent({"GET", target, ""});
      if (const auto found = header(reply, "X-Consul-Index")) of_agent = std::stoull(*found);
    }
    if (of_model == 0 || s.index == index::newer) return {of_agent + 1'000'000, of_model + 1'000'000};
    if (s.index == index::older) return {of_agent - 1, of_model - 1};
    return {of_agent, of_model};
  }

  std::uint64_t api_model_index(const std::string& key) const {
    const auto found = model_.get(prefix_ + key);
    return found.value ? found.value->modify_index : 0;
  }

  std::string node_of(const operation_step& s) const { return prefix_ + pick(node_names, s.key); }

  std::string on_node(const char* endpoint, const operation_step& s) const {
    std::string out = endpoint;
    consul::detail::append_encoded_key(out, node_of(s));
    return out;
  }

  api_request registration_of(const operation_step& s) const {
    return {"PUT", "/v1/catalog/register",
            json::serialize(json::object{{"Node", node_of(s)}, {"Address", pick(addresses, s.value)}})};
  }

  static api_request deregistration_of(const std::string& node) {
    return {"PUT", "/v1/catalog/deregister", json::serialize(json::object{{"Node", node}})};
  }

  // Half of the sessions are on the agent's node. Some of the others ask for a check that their node does not have.
  std::string session_body(const operation_step& s) const {
    static constexpr const char* bodies[] = {
        R"({"TTL":"10m0s","Behavior":"delete","LockDelay":"0s"})", R"({"LockDelay":"0s","NodeChecks":[]})",
        R"({"LockDelay":"30s","Name":"n"})", R"({"TTL":"1h0m0s","Behavior":"delete","LockDelay":60})"};
    json::object body = json::parse(pick(bodies, s.option)).as_object();
    if (s.value % 2 == 1) {
      body["Node"] = node_of(s);
      if (s.flags % 8 != 0) body["NodeChecks"] = json::array();
    }
    return json::serialize(body);
  }

  void create_session(std::uint8_t number, const operation_step& s = {}) {
    const api_request request{"PUT", "/v1/session/create", session_body(s)};
    const auto [agents, models] = exchange_unseen(request);
    const auto id = [](const api_reply& reply) { return std::string(json::parse(reply.body).at("ID").get_string()); };
    if (agents.status != 200 || models.status != 200) return compare(request, agents, models);
    sessions_[number] = {id(agents), id(models)};
    session_of_agent_[id(models)] = id(agents);
  }
  std::pair<api_reply, api_reply> exchange_unseen(const api_request& same) {
    ++shared_.operations;
    return {ask_agent(same), api_.handle(same, now_).reply};
  }
  void on_session(std::string_view method, std::string_view path, std::uint8_t number) {
    const auto& [agents, models] = session(number);
    exchange({std::string(method), std::string(path) + agents, ""},
             {std::string(method), std::string(path) + models, ""});
  }
  void destroy_session(std::uint8_t number) { on_session("PUT", "/v1/session/destroy/", number); }

  void step(const operation_step& s) {
    switch (s.what) {
      case kind::put:
      case kind::cas:
      case kind::acquire:
      case kind::release:
        return write(s);
      case kind::remove:
        exchange({"DELETE", kv(key_of(s)), ""});
        return;
      case kind::remove_cas: {
        const auto [agents, models] = index_for(s);
        const std::string target = kv(key_of(s)) + "?cas=";
        exchange({"DELETE", target + std::to_string(agents), ""}, {"DELETE", target + std::to_string(models), ""});
        return;
      }
      case kind::remove_tree:
        exchange({"DELETE", kv(prefix_of(s)) + "?recurse", ""});
        return;
      case kind::get:
        exchange({"GET", kv(key_of(s)), ""});
        return;
      case kind::raw:
        exchange({"GET", kv(key_of(s)) + "?raw", ""});
        return;
      case kind::list:
        exchange({"GET", kv(prefix_of(s)) + "?recurse", ""});
        return;
      case kind::keys:
        exchange({"GET", kv(prefix_of(s)) + keys_query(s), ""});
        return;
      case kind::txn:
        return transact(s);
      case kind::create_session:
        if (sessions_.contains(s.session)) destroy_session(s.session);
        settle();  // who wakes has to look before the next change
        return create_session(s.session, s);
      case kind::renew_session:
        return on_session("PUT", "/v1/session/renew/", s.session);
      case kind::destroy_session:
        return destroy_session(s.session);
      case kind::session:
        return on_session("GET", "/v1/session/info/", s.session);
      case kind::sessions:
        exchange({"GET", "/v1/session/list", ""});
        return;
      case kind::watch_key:
        return watch(request("GET", kv(key_of(s))), '?');
      case kind::watch_list:
        return watch(request("GET", kv(prefix_of(s)) + "?recurse"), '&');
      case kind::watch_keys:
        return watch(request("GET", kv(prefix_of(s)) + keys_query(s)), '&');
      case kind::watch_session: {
        // The model watches a missing session in another way than Consul, and wakes more often.
        const auto& [agents, models] = session(s.session);
        if (!model_.session(models).value) return;
        return watch({{"GET", "/v1/session/info/" + agents, ""}, {"GET", "/v1/session/info/" + models, ""}}, '?');
      }
      case kind::watch_sessions:
        return watch(request("GET", "/v1/session/list"), '?');
      case kind::register_node:
        exchange(registration_of(s));
        return;
      case kind::deregister_node:
        exchange(deregistration_of(node_of(s)));
        return;
      case kind::node:
        exchange({"GET", on_node("/v1/catalog/node/", s), ""});
        return;
      case kind::nodes:
        exchange({"GET", "/v1/catalog/nodes", ""});
        return;
      case kind::node_sessions:
        exchange({"GET", on_node("/v1/session/node/", s), ""});
        return;
      case kind::watch_node:
        return watch(request("GET", on_node("/v1/catalog/node/", s)), '?');
      case kind::watch_nodes:
        return watch(request("GET", "/v1/catalog/nodes"), '?');
      case kind::watch_node_sessions:
        return watch(request("GET", on_node("/v1/session/node/", s)), '?');
    }
  }

  static std::string keys_query(const operation_step& s) { return s.option % 2 == 0 ? "?keys" : "?keys&separator=/"; }

  void write(const operation_step& s) {
    both r = request("PUT", kv(key_of(s)) + "?flags=" + std::to_string(pick(flag_values, s.flags)));
    r.agents.body = r.models.body = pick(values, s.value);
    if (s.what == kind::cas) {
      const auto [agents, models] = index_for(s);
      r.agents.target += "&cas=" + std::to_string(agents);
      r.models.target += "&cas=" + std::to_string(models);
    } else if (s.what != kind::put) {
      const char* const name = s.what == kind::acquire ? "&acquire=" : "&release=";
      r.agents.target += name + session(s.session).first;
      r.models.target += name + session(s.session).second;
    }
    exchange(r.agents, r.models);
  }

  void transact(const operation_step& s) {
    json::array agents, models;
    for (const operation_step& part : s.parts) {
      const kv_verb which = pick(kv_verbs, part.option);
      const std::string_view verb = to_string(which);
      const fields sent = fields_of(which);
      const auto [agents_index, models_index] = index_for(part);
      json::object op;
      op["Verb"] = json::string_view(verb.data(), verb.size());
      op["Key"] = prefix_ + (sent.prefix ? prefix_of(part) : key_of(part));
      if (sent.value) {
        static constexpr const char* encoded[] = {"", "eA==", "eXk=", "bnVsbA=="};
        op["Value"] = pick(encoded, part.value);
        op["Flags"] = pick(flag_values, part.flags);
      }
      json::object theirs = op, mine = op;
      if (sent.session) {
        theirs["Session"] = session(part.session).first;
        mine["Session"] = session(part.session).second;
      }
      if (sent.index) {
        theirs["Index"] = agents_index;
        mine["Index"] = models_index;
      }
      agents.push_back(json::object{{"KV", std::move(theirs)}});
      models.push_back(json::object{{"KV", std::move(mine)}});
    }
    exchange({"PUT", "/v1/txn", json::serialize(agents)}, {"PUT", "/v1/txn", json::serialize(models)});
  }

  // --- Blocking queries

  void watch(both r, char separator) {
    const auto [agents, models] = exchange(r.agents, r.models);
    const auto asked = [separator](api_request& request, const api_reply& reply) {
      request.target += separator + ("index=" + header(reply, "X-Consul-Index").value_or("0") + "&wait=600s");
    };
    asked(r.agents, agents);
    asked(r.models, models);
    pending_watch w{r.agents, r.models, {}, 0, false, {}};
    if (shared_.unused_watches.empty()) shared_.unused_watches.emplace_back(shared_.endpoint);
    w.line.splice(w.line.begin(), shared_.unused_watches, shared_.unused_watches.begin());
    w.line.front().send(w.agents);
    ++shared_.operations;
    ask_model(w);
    if (!w.due) shared_.wait_for_agent(w.line.front());  // it waits there before the next change
    watches_.push_back(std::move(w));
  }

  void ask_model(pending_watch& w) {
    api_answer answer = api_.handle(w.models, now_);
    if (answer.waits_for) {
      w.id = model_.watch(*answer.waits_for);
    } else {
      w.due = true;
      w.reply = std::move(answer.reply);
    }
  }

  // Both sides' replies to blocking queries since the last time.
  void settle() {
    if (changed_ && !watches_.empty()) shared_.wait_for_agent(shared_.requests);
    changed_ = false;
    for (const auto id : model_.take_fired())
      for (pending_watch& w : watches_)
        if (!w.due && w.id == id) ask_model(w);
    for (auto at = watches_.begin(); at != watches_.end();) {
      connection& line = at->line.front();
      if (!at->due && line.readable(0)) {
        const api_reply reply = line.receive();
        disagree(at->agents, "Consul woke up, the model did not", reply, api_.handle(at->models, now_).reply);
      }
      if (!at->due) {
        ++at;
        continue;
      }
      if (!line.readable(shared_.patience_ms)) disagree(at->agents, "the model woke up, Consul did not", {}, at->reply);
      compare(at->agents, line.receive(), at->reply);
      ++shared_.wakes;
      shared_.unused_watches.splice(shared_.unused_watches.end(), at->line);
      at = watches_.erase(at);
    }
  }

  // Wakes every watch. So hardly any is left at the agent, and each shows what it woke up for.
  void finish() {
    settle();
    for (const char* key : key_names) {
      exchange({"PUT", kv(key), "end"});
      settle();
    }
    for (const char* prefix : prefix_names) {
      exchange({"PUT", kv(std::string(prefix) + "~"), "end"});
      settle();
    }
    for (std::uint8_t each = 0; each < session_count; ++each) {
      destroy_session(each);
      settle();
    }
    create_session(0);
    settle();
    for (std::uint8_t each = 0; each < static_cast<std::uint8_t>(std::size(node_names)); ++each) {
      for (const operation_step& s : {operation_step{.what = kind::register_node, .key = each},
                                      operation_step{.what = kind::register_node, .key = each, .value = 1},
                                      operation_step{.what = kind::create_session, .key = each, .value = 1, .flags = 1},
                                      operation_step{.what = kind::deregister_node, .key = each}}) {
        step(s);
        settle();
      }
    }
    settle();  // those that still wait never wake again: on both sides
    exchange({"GET", kv("") + "?recurse", ""});
  }

  comparison::state& shared_;
  const std::string prefix_;
  testing::store model_;
  testing::detail::api api_{model_, 1};
  const testing::store::time_point now_{};
  index_pairs indexes_;
  std::map<std::uint8_t, std::pair<std::string, std::string>> sessions_;  // the agent's id and the model's
  std::map<std::string, std::string> session_of_agent_;                   // by the model's
  std::list<pending_watch> watches_;
  bool changed_ = false;  // since it was last seen who woke up
};

std::string to_string(const operation_step& s) {
  static constexpr const char* names[] = {"put",
                                          "cas",
                                          "acquire",
                                          "release",
                                          "remove",
                                          "remove_cas",
                                          "remove_tree",
                                          "get",
                                          "raw",
                                          "list",
                                          "keys",
                                          "txn",
                                          "create_session",
                                          "renew_session",
                                          "destroy_session",
                                          "session",
                                          "sessions",
                                          "watch_key",
                                          "watch_list",
                                          "watch_keys",
                                          "watch_session",
                                          "watch_sessions",
                                          "register_node",
                                          "deregister_node",
                                          "node",
                                          "nodes",
                                          "node_sessions",
                                          "watch_node",
                                          "watch_nodes",
                                          "watch_node_sessions"};
  static constexpr const char* indexes[] = {"none", "current", "older", "newer"};
  const auto number = [](auto n) { return std::to_string(static_cast<int>(n)); };
  std::string out = std::string(names[static_cast<int>(s.what)]) + " key " + pick(key_names, s.key) + " prefix \"" +
                    pick(prefix_names, s.key) + "\" node " + pick(node_names, s.key) + " value " +
                    number(s.value % std::size(values)) + " flags " + number(s.flags % std::size(flag_values)) +
                    " session " + number(s.session) + " option " + number(s.option % std::size(kv_verbs)) + " index " +
                    indexes[static_cast<int>(s.index)];
  for (const operation_step& part : s.parts)
    out += "\n    " + std::string(to_string(pick(kv_verbs, part.option))) + to_string(part).substr(3);
  return out;
}

}  // namespace

std::string to_string(const std::vector<operation_step>& sequence) {
  std::string out;
  for (const operation_step& each : sequence) out += "  " + to_string(each) + "\n";
  return out;
}

comparison::comparison(const agent& with) : state_(std::make_unique<state>(with)) {}
comparison::~comparison() = default;

std::string comparison::run(const std::vector<operation_step>& sequence, testing::defect broken) {
  return run(sequence, broken, broken == testing::defect() ? patient_ms : hasty_ms);
}

std::string comparison::run(const std::vector<operation_step>& sequence, testing::defect broken, int patience_ms) {
  state_->patience_ms = patience_ms;
  run_of_sequence one(*state_, broken);
  try {
    one.run(sequence);
    return {};
  } catch (const disagreement& what) {
    return what.what();
  }
}

std::pair<std::vector<operation_step>, std::string> comparison::shrink(std::vector<operation_step> sequence,
                                                                       testing::defect broken) {
  std::string why = run(sequence, broken);
  // Leaves out ever smaller pieces, as long as what is left still disagrees.
  for (std::size_t size = std::max<std::size_t>(sequence.size() / 2, 1); size > 0 && !why.empty(); size /= 2) {
    for (std::size_t at = 0; at < sequence.size();) {
      std::vector<operation_step> less = sequence;
      less.erase(less.begin() + static_cast<std::ptrdiff_t>(at),
                 less.begin() + static_cast<std::ptrdiff_t>(std::min(at + size, less.size())));
      const std::string then = run(less, broken, hasty_ms);
      if (then.empty()) {
        at += size;
      } else {
        sequence = std::move(less);
        why = then;
      }
    }
  }
  return {sequence, why};
}

std::size_t comparison::operations() const noexcept { return state_->operations; }
std::size_t comparison::wakes() const noexcept { return state_->wakes; }

}  // namespace holdfast::test
