// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/call.hpp"

#include "consul/config_check.hpp"
#include "consul/encoding/classify.hpp"
#include "consul/encoding/duration.hpp"
#include "consul/encoding/http.hpp"
#include "consul/encoding/json.hpp"
#include "net/percent_encoding.hpp"
#include "net/utf8.hpp"

namespace holdfast::consul::detail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds lock_delay_max = std::chrono::seconds(60);

// A request target: a path, then a query that grows parameter by parameter.
class target {
public:
  explicit target(std::string_view path) : text_(path) {}

  target& key(std::string_view k) {
    has_dot_segment_ = has_dot_segment_ || net::has_dot_segment(k);
    append_encoded_key(text_, k);
    return *this;
  }
  target& segment(std::string_view s) {
    has_dot_segment_ = has_dot_segment_ || net::has_dot_segment(s);
    net::append_encoded(text_, s);
    return *this;
  }
  target& flag(std::string_view name) {
    text_ += separator_;
    text_ += name;
    separator_ = '&';
    return *this;
  }
  target& parameter(std::string_view name, std::string_view value) {
    flag(name);
    text_ += '=';
    net::append_encoded(text_, value);
    return *this;
  }
  target& parameter(std::string_view name, std::uint64_t value) { return parameter(name, std::to_string(value)); }
  target& read(const read_options& options) {
    if (options.mode == consistency::consistent) flag("consistent");
    if (options.mode == consistency::stale) flag("stale");
    if (options.index != 0) parameter("index", options.index).parameter("wait", to_go_duration(options.wait));
    return *this;
  }

  const std::string& text() const noexcept { return text_; }
  /// Whether a key or a name in the path has a segment "." or "..".
  bool has_dot_segment() const noexcept { return has_dot_segment_; }

private:
  std::string text_;
  char separator_ = '?';
  bool has_dot_segment_ = false;
};

call start_call(const call_settings& settings, request_kind kind, std::string_view name, std::string key,
                const request_options& options) {
  call c;
  c.request.kind = kind;
  c.name = name;
  c.key = std::move(key);
  c.retry = options.retry;
  c.diag = options.diag;
  c.trace_parent = options.trace_parent;
  c.time = options.timeout.count() == 0 ? settings.timeout : options.timeout;
  if (c.time < milliseconds(0) || c.time > time_max) c.refused = error::invalid_option;
  return c;
}

// A key that is not UTF-8 would name different keys in the JSON of a transaction and in a path. Consul 1.22 refuses to
// create keys that begin or end with a space, but in a transaction it creates some that no path can name.
void check_key(call& c, const std::string& key, bool may_create = false) {
  if (!net::is_utf8(key)) {
    c.refused_for = "a key that is not UTF-8";
  } else if (may_create && (key.starts_with(' ') || key.ends_with(' '))) {
    c.refused_for = "a new key that begins or ends with a space";
  } else {
    return;
  }
  c.refused = error::bad_request;
  c.key = key;
}

// This function and `is_delete` have no `switch`. So the compiler does not report a new kind of write here.
bool may_create(const write_request& request) noexcept {
  using kind = write_request::kind;
  return request.verb == kind::put || request.verb == kind::acquire ||
         (request.verb == kind::cas && request.index == 0);
}

bool may_create(const txn_operation& operation) noexcept {
  switch (operation.verb) {
    case txn_verb::set:
    case txn_verb::lock:
      return true;
    case txn_verb::cas:
      return operation.index == 0;
    case txn_verb::unlock:
    case txn_verb::check_session:
    case txn_verb::check_index:
    case txn_verb::check_not_exists:
    case txn_verb::remove:
    case txn_verb::remove_cas:
    case txn_verb::get:
    case txn_verb::get_tree:
    case txn_verb::remove_tree:
      return false;
  }
  return true;
}

void finish_call(call& c, const call_settings& settings, std::string_view method, target& where,
                 content type = content::none, std::string body = {}) {
  if (!settings.datacenter.empty()) where.parameter("dc", settings.datacenter);
  if (!settings.consul_namespace.empty()) where.parameter("ns", settings.consul_namespace);
  if (!settings.partition.empty()) where.parameter("partition", settings.partition);
  if (where.has_dot_segment()) {
    c.refused = error::bad_request;
    c.refused_for = "a segment \".\" or \"..\" in a key or a name";
  }
  c.request.method = method;
  c.request.target = where.text();
  c.request.type = type;
  c.request.body = std::move(body);
  c.request.is_write = c.does != effect::none;
  c.request.repeatable = c.does != effect::write;
  c.request.waits_in_outage = c.retry;
}

call make_read(const call_settings& settings, request_kind kind, std::string_view name, std::string key, target where,
               const read_options& options) {
  call c = start_call(settings, kind, name, std::move(key), options.request);
  if (options.index != 0) {
    // To Consul a wait of 0 means its default of 5 minutes, and more than 10 minutes means 10.
    if (options.wait < milliseconds(1) || options.wait > time_max) c.refused = error::invalid_option;
    c.where = connection_class::blocking;
    if (!c.refused) {  // else the sum of these times may not be representable
      c.request.wait = options.wait;
      c.request.slack = options.wait / 16 + c.time;
      c.time = c.request.wait + c.request.slack;
    }
  }
  finish_call(c, settings, "GET", where.read(options));
  return c;
}

call make_key_read(const call_settings& settings, std::string_view name, const std::string& key, target where,
                   const read_options& options) {
  call c = make_read(settings, request_kind::kv_read, name, key, std::move(where), options);
  check_key(c, key);
  return c;
}

std::string_view name_of(write_request::kind verb) noexcept {
  switch (verb) {
    case write_request::kind::put:
      return "put";
    case write_request::kind::cas:
      return "cas";
    case write_request::kind::acquire:
      return "acquire";
    case write_request::kind::release:
      return "release";
    case write_request::kind::remove:
      return "remove";
    case write_request::kind::remove_tree:
      return "remove_tree";
    case write_request::kind::remove_cas:
      return "remove_cas";
  }
  return "write";
}

bool is_delete(write_request::kind verb) noexcept {
  using kind = write_request::kind;
  return verb == kind::remove || verb == kind::remove_tree || verb == kind::remove_cas;
}

void add_write_parameters(target& where, const write_request& request) {
  switch (request.verb) {
    case write_request::kind::put:
    case write_request::kind::remove:
      break;
    case write_request::kind::cas:
    case write_request::kind::remove_cas:
      where.parameter("cas", request.index);
      break;
    case write_request::kind::acquire:
      where.parameter("acquire", request.session);
      break;
    case write_request::kind::release:
      where.parameter("release", request.session);
      break;
    case write_request::kind::remove_tree:
      where.flag("recurse");
      break;
  }
  if (request.flags != 0) where.parameter("flags", request.flags);
}

}  // namespace

call_settings::call_settings(const config& settings)
    : datacenter(settings.datacenter),
      consul_namespace(settings.consul_namespace),
      partition(settings.partition),
      timeout(settings.request_timeout) {}

call make_call(const call_settings& settings, const get_request& request) {
  target where("/v1/kv/");
  where.key(request.key);
  return make_key_read(settings, "get", request.key, std::move(where), request.options);
}

call make_call(const call_settings& settings, const list_request& request) {
  target where("/v1/kv/");
  where.key(request.prefix).flag("recurse");
  return make_key_read(settings, "list", request.prefix, std::move(where), request.options);
}

call make_call(const call_settings& settings, const keys_request& request) {
  target where("/v1/kv/");
  where.key(request.prefix).flag("keys");
  if (!request.separator.empty()) where.parameter("separator", request.separator);
  return make_key_read(settings, "keys", request.prefix, std::move(where), request.options);
}

call make_call(const call_settings& settings, const write_request& request) {
  call c = start_call(settings, request_kind::kv_write, name_of(request.verb), request.key, request.options);
  c.does = effect::write;
  check_key(c, request.key, may_create(request));
  target where("/v1/kv/");
  where.key(request.key);
  add_write_parameters(where, request);
  if (is_delete(request.verb)) {
    finish_call(c, settings, "DELETE", where);
  } else {
    finish_call(c, settings, "PUT", where, content::bytes, request.value);
  }
  return c;
}

call make_call(const call_settings& settings, const session_create_request& request) {
  call c = start_call(settings, request_kind::session_create, "create_session", {}, request.options);
  c.does = effect::write;
  if (request.session.ttl < milliseconds(0)) c.refused = error::invalid_ttl;
  if (request.session.lock_delay < milliseconds(0) || request.session.lock_delay > lock_delay_max) {
    c.refused = error::invalid_option;
  }
  target where("/v1/session/create");
  finish_call(c, settings, "PUT", where, content::json, write_session(request.session));
  return c;
}

call make_call(const call_settings& settings, const session_renew_request& request) {
  call c = start_call(settings, request_kind::session_renew, "renew_session", request.id, request.options);
  c.where = connection_class::renewal;
  c.does = effect::idempotent;
  target where("/v1/session/renew/");
  finish_call(c, settings, "PUT", where.segment(request.id));
  return c;
}

call make_call(const call_settings& settings, const session_destroy_request& request) {
  call c = start_call(settings, request_kind::session_destroy, "destroy_session", request.id, request.options);
  c.does = effect::idempotent;
  target where("/v1/session/destroy/");
  finish_call(c, settings, "PUT", where.segment(request.id));
  return c;
}

call make_call(const call_settings& settings, const session_info_request& request) {
  target where("/v1/session/info/");
  where.segment(request.id);
  return make_read(settings, request_kind::session_read, "session", request.id, std::move(where), request.options);
}

call make_call(const call_settings& settings, const node_register_request& request) {
  call c = start_call(settings, request_kind::node_write, "register_node", request.node.name, request.options);
  c.does = effect::idempotent;
  if (request.node.name.empty() || request.node.address.empty()) c.refused = error::invalid_option;
  // Consul reads the datacenter only from the body here. A node is in no namespace.
  call_settings elsewhere = settings;
  elsewhere.datacenter.clear();
  elsewhere.consul_namespace.clear();
  target where("/v1/catalog/register");
  finish_call(c, elsewhere, "PUT", where, content::json, write_node(request.node, settings.datacenter));
  return c;
}

call make_call(const call_settings& settings, const node_read_request& request) {
  call_settings elsewhere = settings;
  elsewhere.consul_namespace.clear();  // a node is in no namespace
  target where("/v1/catalog/node/");
  where.segment(request.name);
  call c = make_read(elsewhere, request_kind::node_read, "node", request.name, std::move(where), request.options);
  if (request.name.empty()) c.refused = error::invalid_option;
  return c;
}

call make_call(const call_settings& settings, const txn_request& request, std::size_t operations_max) {
  call c = start_call(settings, request_kind::transact, "transact",
                      request.operations.empty() ? std::string() : request.operations.front().key, request.options);
  c.does = effect::write;
  if (request.operations.size() > operations_max) {
    c.refused = error::too_large;
    c.refused_for = "more operations than Consul takes in one transaction";
    return c;
  }
  for (const txn_operation& operation : request.operations) check_key(c, operation.key, may_create(operation));
  target where("/v1/txn");
  finish_call(c, settings, "PUT", where, content::json,
              write_txn(request.operations, settings.consul_namespace, settings.partition));
  return c;
}

bool may_repeat(const call& c, const error_code& e) noexcept {
  if (!c.retry) return false;
  if (e == error::unreachable || e == error::token_unknown) return true;  // certainly not carried out
  // Only the caller of a blocking query knows whether it still wants to wait, so the caller repeats it.
  if (c.does == effect::write || c.where == connection_class::blocking) return false;
  return e == error::connection_lost || e == error::server_error || e == error::not_consul ||
         e == error::too_many_requests;
}

std::string describe(const call& c, std::string_view address, const attempt_result& outcome) {
  std::string text(c.name);
  const auto add = [&text](std::string_view part) { text += part; };
  const auto add_cause = [&] {
    if (outcome.cause) add(": " + outcome.cause.message());
  };

  if (c.refused) {
    add(": not sent: ");
    add(c.refused_for.empty() ? c.refused.message() : c.refused_for);
  } else if (outcome.error == error::unreachable) {
    add(": cannot connect to ");
    add(address);
    if (outcome.message.empty()) {
      add_cause();
    } else {
      add(": " + outcome.message);
    }
  } else if (outcome.error == error::too_busy && c.where == connection_class::blocking) {
    add(": not sent: all places for blocking queries to ");
    add(address);
    add(" were taken (config::blocking_max)");
  } else if (outcome.error == error::too_busy) {
    add(": not sent: no connection to ");
    add(address);
    add(" was free in time");
  } else if (outcome.error == error::timed_out) {
    add(": no complete reply from ");
    add(address);
    add(" within " + to_go_duration(c.time));
  } else if (outcome.error == error::connection_lost) {
    add(": the connection to ");
    add(address);
    add(" ended before a complete reply");
    add_cause();
    if (outcome.is_barred) {
      add(" (it was new: this host may have too many connections there, or the port is not that of HTTP)");
    }
  } else if (outcome.error == error::too_many_requests && outcome.reply.status == 0) {
    add(": not sent: ");
    add(address);
    add(" closes new connections at once; it allows so many from one address (limits.http_max_conns_per_client)");
  } else if (outcome.error == error::certificate_refused) {
    add(": not sent: the certificate of ");
    add(address);
    add(" is not accepted: " + outcome.message);
  } else if (outcome.error == error::client_certificate_refused) {
    add(": not sent: ");
    add(address);
    add(" does not accept our certificate, or wants one (tls.certificate_file)");
    add_cause();
  } else if (outcome.error == error::not_consul) {
    add(": ");
    add(address);
    add(" answered " + what_answered(outcome.reply) + ": not Consul's answer");
    if (const std::string_view advice = advice_about(outcome.reply); !advice.empty()) {
      add(" (");
      add(advice);
      add(")");
    }
  } else if (outcome.error && outcome.reply.status != 0) {
    add(": ");
    add(address);
    add(" answered " + std::to_string(outcome.reply.status) + ": ");
    add(outcome.error.message());
  } else if (!outcome.error) {
    add(": ");
    add(address);
    add(" left out what the ACL token may not read");
  } else {
    add(": ");
    add(outcome.error.message());
  }
  return text;
}

}  // namespace holdfast::consul::detail
