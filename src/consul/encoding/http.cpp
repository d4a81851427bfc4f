// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/http.hpp"

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/version.hpp>
#include <charconv>

#include "consul/encoding/duration.hpp"
#include "consul/encoding/last_chunk.hpp"

namespace holdfast::consul::detail {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

constexpr std::size_t read_size = 16 * 1024;
constexpr std::uint32_t header_bytes_max = 16 * 1024;
// A Content-Length may be wrong, so at most this much memory is reserved before the bytes arrive.
constexpr std::uint64_t body_reserve_max = 1024 * 1024;

std::string_view view(const beast::flat_buffer& buffer) {
  return {static_cast<const char*>(buffer.cdata().data()), buffer.size()};
}

template <class Integer>
bool parse_number(beast::string_view text, Integer& out) noexcept {
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, out);
  return ec == std::errc() && stop == end;
}

// Keeps only the fields of `http_reply`, and builds no list of header fields.
class message_parser final : public http::basic_parser<false> {
public:
  explicit message_parser(std::size_t body_bytes_max) {
    eager(true);
    header_limit(header_bytes_max);
    body_limit(body_bytes_max);
  }

  http_reply reply;

private:
  void on_request_impl(http::verb, beast::string_view, beast::string_view, int, error_code&) override {}

  void on_response_impl(int status, beast::string_view, int, error_code& ec) override {
    constexpr int switching_protocols = 101;  // the client never asks for that
    if (status < 100 || status == switching_protocols) ec = error::malformed_reply;
    reply.status = static_cast<unsigned>(status);
  }

  void on_field_impl(http::field name_of_field, beast::string_view name, beast::string_view value,
                     error_code& ec) override {
    if (header_is_over_) return;  // a trailer's field; newer versions of Beast call the function below for it
    if (name_of_field == http::field::content_type) {
      if (!beast::iequals(value, "application/json")) reply.content_type.assign(value.data(), value.size());
      return;
    }
    if (name_of_field == http::field::location) {
      reply.location.assign(value.data(), value.size());
      return;
    }
    constexpr std::string_view consuls = "X-Consul-";
    if (name.size() < consuls.size() || !beast::iequals(name.substr(0, consuls.size()), consuls)) return;
    reply.is_consuls = true;
    if (beast::iequals(name, "X-Consul-Index")) {
      std::uint64_t index = 0;
      if (!parse_number(value, index)) {
        ec = error::malformed_reply;
        return;
      }
      reply.index = index;
    } else if (beast::iequals(name, "X-Consul-Knownleader")) {
      reply.known_leader = value == "true";
    } else if (beast::iequals(name, "X-Consul-Lastcontact")) {
      // A server that has never had a leader sends the time since the year 1.
      std::uint64_t milliseconds = 0;
      if (!parse_number(value, milliseconds)) {
        ec = error::malformed_reply;
        return;
      }
      using milliseconds_type = std::chrono::milliseconds;
      constexpr auto most = static_cast<std::uint64_t>(milliseconds_type::max().count());
      reply.last_contact = milliseconds_type(static_cast<milliseconds_type::rep>(std::min(milliseconds, most)));
    } else if (beast::iequals(name, "X-Consul-Results-Filtered-By-ACLs")) {
      reply.filtered_by_acls = value == "true";
    }
  }

#if BOOST_VERSION >= 109000
  void on_trailer_field_impl(http::field, beast::string_view, beast::string_view, error_code&) override {}
#endif

  void on_header_impl(error_code&) override { header_is_over_ = true; }

  void on_body_init_impl(const boost::optional<std::uint64_t>& length, error_code&) override {
    if (length) reply.body.reserve(static_cast<std::size_t>(std::min(*length, body_reserve_max)));
  }

  std::size_t on_body_impl(beast::string_view bytes, error_code&) override {
    reply.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }

  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override {}

  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view bytes, error_code&) override {
    reply.body.append(bytes.data(), bytes.size());
    return bytes.size();
  }

  void on_finish_impl(error_code&) override {}

  bool header_is_over_ = false;
};

error_code translate(const error_code& ec) {
  return ec == http::error::body_limit ? error::reply_too_large : error::malformed_reply;
}

}  // namespace

http_request with_wait(http_request request, std::chrono::milliseconds wait) {
  // Keys are encoded, so "&wait=" does not occur in the part before it.
  constexpr std::string_view name = "&wait=";
  const auto begin = request.target.find(name) + name.size();
  request.target.replace(begin, request.target.find('&', begin) - begin, to_go_duration(wait));
  request.wait = wait;
  return request;
}

namespace {

std::string& begin_request(std::string& out, std::string_view method, std::string_view before_target,
                           std::string_view target, std::string_view headers) {
  out.append(method).append(" ").append(before_target).append(target).append(" HTTP/1.1\r\n").append(headers);
  return out;
}

void end_request(std::string& out, std::string_view method, std::string_view body) {
  // A PUT without a body needs a Content-Length of 0. A GET or DELETE without a body needs none.
  if (!body.empty() || method == "PUT") {
    out.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  }
  out.append("\r\n").append(body);
}

}  // namespace

std::string to_bytes(const http_request& request, const agent_lines& to, std::string_view token) {
  constexpr std::size_t ours = 160;  // the text between the parts
  std::string out;
  out.reserve(to.before_target.size() + request.target.size() + to.headers.size() + token.size() + request.body.size() +
              ours);
  begin_request(out, request.method, to.before_target, request.target, to.headers);
  if (!token.empty()) out.append("X-Consul-Token: ").append(token).append("\r\n");
  if (request.type == content::json) out.append("Content-Type: application/json\r\n");
  if (request.type == content::bytes) out.append("Content-Type: application/octet-stream\r\n");
  end_request(out, request.method, request.body);
  return out;
}

std::string format_request(std::string_view method, std::string_view target, std::string_view headers,
                           std::string_view body) {
  constexpr std::size_t ours = 64;
  std::string out;
  out.reserve(method.size() + target.size() + headers.size() + body.size() + ours);
  end_request(begin_request(out, method, {}, target, headers), method, body);
  return out;
}

class reply_parser::machine {
public:
  explicit machine(std::size_t body_bytes_max) : body_bytes_max_(body_bytes_max) { restart(); }

  void restart() {
    buffer.clear();
    parser.emplace(body_bytes_max_);
  }

  http_reply take() {
    http_reply taken = std::move(parser->reply);
    taken.kept_max = kept_max_of(body_bytes_max_);
    return taken;
  }

  /// Skips an interim reply: a server may send any number of 1xx replies before the final one (RFC 9110, section 15.2).
  bool pass_over_interim() {
    if (!parser->is_done() || parser->reply.status >= 200) return false;
    parser.emplace(body_bytes_max_);
    return true;
  }

  bool may_be_reply() const {
    if (parser->reply.status != 0) return true;
    constexpr std::string_view beginning = "HTTP/1.";
    const std::string_view received(static_cast<const char*>(buffer.data().data()), buffer.size());
    return received.starts_with(beginning.substr(0, received.size()));
  }

  beast::flat_buffer buffer;  // keeps its memory from reply to reply
  std::optional<message_parser> parser;

private:
  std::size_t body_bytes_max_;
};

reply_parser::reply_parser(std::size_t body_bytes_max) : machine_(std::make_unique<machine>(body_bytes_max)) {}
reply_parser::~reply_parser() = default;

void reply_parser::restart() { machine_->restart(); }

boost::asio::mutable_buffer reply_parser::space() { return machine_->buffer.prepare(read_size); }

error_code reply_parser::commit(std::size_t size) {
  machine& m = *machine_;
  m.buffer.commit(size);
  do {
    // Some versions of Beast wait for the end of the header. Bytes that are no reply at all may never have one.
    if (!m.may_be_reply()) return error::malformed_reply;
    while (!m.parser->is_done() && m.buffer.size() > 0) {
      const bool in_chunks = m.parser->is_header_done() && m.parser->chunked();
      if (in_chunks && may_be_last_chunk(view(m.buffer))) break;
      error_code ec;
      m.buffer.consume(m.parser->put(m.buffer.data(), ec));
      if (ec == http::error::need_more) break;
      if (ec) return translate(ec);
    }
  } while (m.pass_over_interim());
  // Beast limits the size of a header, but not of a chunk's size line, which may have extensions.
  if (!m.parser->is_done() && m.buffer.size() > header_bytes_max) return error::malformed_reply;
  return {};
}

error_code reply_parser::finish() {
  message_parser& parser = *machine_->parser;
  if (!parser.is_done()) {
    if (!parser.is_header_done() || !parser.need_eof()) return error::connection_lost;
    error_code ec;
    parser.put_eof(ec);
    if (ec) return translate(ec);
  }
  return {};
}

bool reply_parser::done() const noexcept { return machine_->parser->is_done(); }

bool reply_parser::keep_alive() const noexcept {
  return done() && machine_->parser->keep_alive() && machine_->buffer.size() == 0;
}

http_reply reply_parser::take() { return machine_->take(); }

}  // namespace holdfast::consul::detail
