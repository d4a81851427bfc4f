// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/address.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "net/percent_encoding.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

constexpr std::uint16_t amqp_port = 5672;
constexpr std::uint16_t amqps_port = 5671;
constexpr std::size_t virtual_host_bytes_max = 255;  // AMQP's limit for a short string

// The characters that RFC 3986 allows in a segment and in user information. Others must be percent-encoded.
bool may_stand_alone(char c) noexcept {
  return net::is_unreserved(c) || std::string_view("!$&'()*+,;=:").find(c) != std::string_view::npos;
}

/// Parses one address. The first problem ends it.
class parser {
public:
  error_code parse(std::string_view text, broker_address& out, std::string_view& cause) {
    const bool is_good = parse_all(text);
    if (is_good) {
      out = std::move(parsed_);
    } else {
      cause = cause_;
    }
    return is_good ? error_code() : error_code(code_);
  }

private:
  bool fail(std::string_view cause) noexcept {
    cause_ = cause;
    return false;
  }

  bool parse_all(std::string_view text) {
    const auto scheme_end = text.find("://");
    parsed_.port = amqp_port;
    if (scheme_end == std::string_view::npos) {
      return net::parse_authority(text, parsed_) || fail("without a scheme, it must be host or host:port");
    }
    const std::string_view scheme = text.substr(0, scheme_end);
    if (net::is_scheme(scheme, "amqps")) {
      parsed_.is_tls = true;
      parsed_.port = amqps_port;
    } else if (!net::is_scheme(scheme, "amqp")) {
      code_ = error::unsupported_scheme;
      return fail("the scheme must be amqp or amqps");
    }
    return parse_uri(text.substr(scheme_end + 3));
  }

  bool parse_uri(std::string_view rest) {
    if (rest.find_first_of("?#") != std::string_view::npos)
      return fail("query parameters and fragments are not supported: percent-encode \"?\" and \"#\"");
    if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
      if (!parse_virtual_host(rest.substr(slash + 1))) return false;
      rest.remove_suffix(rest.size() - slash);
    }
    if (const auto at = rest.find('@'); at != std::string_view::npos) {
      if (!parse_login(rest.substr(0, at))) return false;
      rest.remove_prefix(at + 1);
    }
    return parse_host(rest);
  }

  bool parse_virtual_host(std::string_view text) {
    auto name = decoded(text);
    if (!name) return fail("the virtual host is not percent-encoded: for example, \"/\" is %2F in it");
    if (name->size() > virtual_host_bytes_max) return fail("the virtual host has more than 255 bytes");
    parsed_.virtual_host = std::move(*name);
    return true;
  }

  bool parse_login(std::string_view text) {
    const auto colon = text.find(':');
    auto user = decoded(text.substr(0, colon));
    if (!user) return fail("the user name is not percent-encoded");
    if (user->size() > user_bytes_max) return fail("the user name has more than 255 bytes");
    if (has_zero(*user)) return fail("the user name has a zero byte");
    parsed_.user = std::move(user);
    if (colon == std::string_view::npos) return true;
    auto password = decoded(text.substr(colon + 1));
    if (!password) return fail("the password is not percent-encoded");
    if (password->size() > password_bytes_max) return fail("the password has more than 1,024 bytes");
    if (has_zero(*password)) return fail("the password has a zero byte");
    parsed_.password = std::move(password);
    return true;
  }

  bool parse_host(std::string_view text) {
    constexpr std::string_view problem =
        "the host or the port is wrong; a user name or password before it must be percent-encoded";
    // The brackets of an IPv6 address, and the percent sign before its zone, stand as they are.
    if (text.starts_with('[')) return net::parse_authority(text, parsed_) || fail(problem);
    const std::string_view encoded = text.substr(0, text.find(':'));
    auto host = decoded(encoded);
    if (!host || host->find_first_of("[:") != std::string::npos) return fail(problem);
    if (host->empty()) host = "localhost";
    *host += text.substr(encoded.size());
    return net::parse_authority(*host, parsed_) || fail(problem);
  }

  // The PLAIN mechanism of the login ends both by a zero byte.
  static bool has_zero(std::string_view text) noexcept { return text.find('\0') != std::string_view::npos; }

  static std::optional<std::string> decoded(std::string_view text) {
    const auto may_be_there = [](char c) { return c == '%' || may_stand_alone(c); };
    if (!std::all_of(text.begin(), text.end(), may_be_there)) return std::nullopt;
    return net::percent_decoded(text);
  }

  broker_address parsed_{};
  error code_ = error::invalid_address;
  std::string_view cause_{};
};

}  // namespace

std::string broker_address::to_string() const {
  std::string text = (is_tls ? "amqps://" : "amqp://") + authority();
  if (virtual_host != "/") {
    text += '/';
    net::append_encoded(text, virtual_host);
  }
  return text;
}

error_code parse_address(std::string_view text, broker_address& out, std::string_view& cause) {
  return parser().parse(text, out, cause);
}

}  // namespace holdfast::rabbitmq::detail
