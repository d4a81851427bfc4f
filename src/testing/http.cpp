// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "http.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>

#include "consul/encoding/http.hpp"
#include "consul/encoding/last_chunk.hpp"
#include "go_text.hpp"

namespace holdfast::testing::detail {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::uint32_t header_bytes_max = 16 * 1024;
constexpr std::size_t buffered_max = 64 * 1024;

std::string_view view(beast::string_view text) { return {text.data(), text.size()}; }

std::string_view view(const beast::flat_buffer& buffer) {
  return {static_cast<const char*>(buffer.cdata().data()), buffer.size()};
}

void append_to(beast::flat_buffer& buffer, std::string_view bytes) {
  buffer.commit(asio::buffer_copy(buffer.prepare(bytes.size()), asio::buffer(bytes)));
}

parse_state state_of(const error_code& ec) {
  if (ec == http::error::body_limit) return parse_state::body_too_large;
  if (ec == http::error::header_limit) return parse_state::header_too_large;
  return parse_state::malformed;
}

template <class Parser>
parse_state parse_some(Parser& parser, beast::flat_buffer& buffer) {
  while (!parser.is_done() && buffer.size() > 0) {
    if (parser.is_header_done() && parser.chunked() && consul::detail::may_be_last_chunk(view(buffer))) break;
    error_code ec;
    buffer.consume(parser.put(buffer.cdata(), ec));
    if (ec == http::error::need_more) break;
    if (ec) return state_of(ec);
  }
  if (parser.is_done()) return parse_state::complete;
  if (buffer.size() <= header_bytes_max) return parse_state::incomplete;
  // Beast limits a header, but not the line with a chunk's size, which may have extensions.
  return parser.is_header_done() ? parse_state::malformed : parse_state::header_too_large;
}

// Beast parses a header only when it is complete, which may never happen for bytes that are not HTTP.
bool may_be_request(std::string_view beginning) {
  constexpr std::size_t method_size_max = 16;
  const std::string_view method = beginning.substr(0, std::min(beginning.find(' '), method_size_max));
  return std::all_of(method.begin(), method.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

bool concerns_connection(beast::string_view name) {
  constexpr std::array<const char*, 10> names{"Connection",        "Keep-Alive", "Proxy-Connection", "TE",   "Trailer",
                                              "Transfer-Encoding", "Upgrade",    "Content-Length",   "Host", "Expect"};
  return std::any_of(names.begin(), names.end(), [&](const char* each) { return beast::iequals(each, name); });
}

std::vector<std::pair<std::string, std::string>> lasting(const http::fields& fields) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& field : fields)
    if (!concerns_connection(field.name_string())) out.emplace_back(view(field.name_string()), view(field.value()));
  return out;
}

std::string status_line(unsigned status) {
  const std::string_view reason = view(http::obsolete_reason(http::int_to_status(status)));
  return "HTTP/1.1 " + std::to_string(status) + ' ' + std::string(reason) + "\r\n";
}

void append_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

bool is_uuid(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !is_hexadecimal(text[i])) return false;
  }
  return true;
}

std::optional<std::string> find_uuid(std::string_view text) {
  constexpr std::size_t size = 36;
  for (std::size_t at = 0; at + size <= text.size(); ++at)
    if (is_uuid(text.substr(at, size))) return std::string(text.substr(at, size));
  return std::nullopt;
}

}  // namespace

class request_reader::machine {
public:
  explicit machine(std::size_t most) : body_bytes_max(most) { restart(); }

  void restart() {
    begun = false;
    parser.emplace();
    parser->eager(true);
    parser->header_limit(header_bytes_max);
    parser->body_limit(body_bytes_max);
  }

  const std::size_t body_bytes_max;
  beast::flat_buffer buffer;
  bool begun = false;  // a part of the request has been parsed
  std::optional<http::request_parser<http::string_body>> parser;
};

request_reader::request_reader(std::size_t body_bytes_max) : machine_(std::make_unique<machine>(body_bytes_max)) {}
request_reader::~request_reader() = default;

void request_reader::append(std::string_view bytes) { append_to(machine_->buffer, bytes); }

bool request_reader::full() const noexcept { return machine_->buffer.size() >= buffered_max; }

parse_state request_reader::parse() {
  machine& m = *machine_;
  if (!m.begun && !may_be_request(view(m.buffer))) return parse_state::malformed;
  const std::size_t before = m.buffer.size();
  const parse_state state = parse_some(*m.parser, m.buffer);
  m.begun = m.begun || m.buffer.size() < before;
  return state;
}

http_request request_reader::take() {
  http::request<http::string_body> message = machine_->parser->release();
  http_request out;
  out.call.method = view(message.method_string());
  out.call.target = view(message.target());
  out.call.body = std::move(message.body());
  out.headers = lasting(message);
  out.keep_alive = message.keep_alive();
  machine_->restart();
  return out;
}

class reply_reader::machine {
public:
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
};

reply_reader::reply_reader(std::string_view method, std::size_t body_bytes_max)
    : machine_(std::make_unique<machine>()) {
  machine_->parser.eager(true);
  machine_->parser.header_limit(header_bytes_max);
  machine_->parser.body_limit(body_bytes_max);
  machine_->parser.skip(method == "HEAD");
}
reply_reader::~reply_reader() = default;

void reply_reader::append(std::string_view bytes) { append_to(machine_->buffer, bytes); }

parse_state reply_reader::parse() { return parse_some(machine_->parser, machine_->buffer); }

parse_state reply_reader::finish() {
  auto& parser = machine_->parser;
  if (!parser.is_header_done() || !parser.need_eof()) return parse_state::malformed;
  error_code ec;
  parser.put_eof(ec);
  return ec ? parse_state::malformed : parse_state::complete;
}

http_reply reply_reader::take() {
  const bool keep_alive = machine_->parser.keep_alive() && machine_->buffer.size() == 0;
  http::response<http::string_body> message = machine_->parser.release();
  http_reply out;
  out.reply.status = message.result_int();
  out.reply.headers = lasting(message);
  out.reply.body = std::move(message.body());
  out.keep_alive = keep_alive;
  return out;
}

std::string format_interim(unsigned status) { return status_line(status) + "\r\n"; }

std::string format_reply(const api_reply& reply, bool keep_alive, bool has_body) {
  std::string out = status_line(reply.status);
  for (const auto& [name, value] : reply.headers) append_line(out, name, value);
  append_line(out, "Connection", keep_alive ? "keep-alive" : "close");
  append_line(out, "Content-Length", std::to_string(reply.body.size()));
  out.append("\r\n");
  if (has_body) out.append(reply.body);
  return out;
}

std::string format_request(const http_request& request, std::string_view host) {
  std::string headers;
  append_line(headers, "Host", host);
  for (const auto& [name, value] : request.headers) append_line(headers, name, value);
  return consul::detail::format_request(request.call.method, request.call.target, headers, request.call.body);
}

api_reply refusal_of(parse_state wrong, std::size_t body_bytes_max) {
  api_reply reply{400, {{"Content-Type", "text/plain; charset=utf-8"}}, "400 Bad Request"};
  if (wrong == parse_state::header_too_large) {
    reply.status = 431;
    reply.body = "431 Request Header Fields Too Large";
  } else if (wrong == parse_state::body_too_large) {
    reply.status = 413;
    reply.body = "Request body too large, max size: " + std::to_string(body_bytes_max) + " bytes.";
  }
  return reply;
}

bool is_blocking_query(const api_request& request) {
  const std::string_view target = request.target;
  constexpr std::string_view name = "index=";
  std::size_t at = target.find('?');
  while (at != std::string_view::npos) {
    const std::size_t end = target.find('&', at + 1);
    const std::string_view pair = target.substr(at + 1, end - at - 1);  // up to the end for the last pair
    if (pair.starts_with(name)) return pair.find_first_not_of('0', name.size()) != std::string_view::npos;
    at = end;
  }
  return false;
}

std::optional<std::string> session_named(const api_request& request) {
  if (auto id = find_uuid(request.target)) return id;
  return find_uuid(request.body);
}

}  // namespace holdfast::testing::detail
