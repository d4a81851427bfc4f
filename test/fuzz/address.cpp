// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The small texts that people write and Consul echoes: addresses, durations, base64, percent-encoding.

#include <algorithm>
#include <chrono>
#include <string>

#include "consul/connections/proxy.hpp"
#include "consul/encoding/base64.hpp"
#include "consul/encoding/duration.hpp"
#include "consul/encoding/url.hpp"
#include "fuzz.hpp"
#include "net/percent_encoding.hpp"
#include "testing/go_text.hpp"

using namespace holdfast;
using namespace holdfast::consul::detail;
using holdfast::fuzz::require;
using std::chrono::nanoseconds;

namespace {

bool is_graphic(char c) { return c > 0x20 && c < 0x7f; }

void check_address(std::string_view text) {
  agent_address address;
  const error_code ec = parse_address(text, address);
  if (ec) {
    require(ec == error::invalid_address || ec == error::unsupported_scheme, "an address is refused for what it is");
    require(address == agent_address(), "a refused address leaves the target alone");
    return;
  }
  require(!address.host.empty() && address.host.size() <= 253, "a host has a name of reasonable size");
  // The text goes into the Host header unchanged.
  const std::string authority = address.authority();
  require(std::all_of(authority.begin(), authority.end(), is_graphic), "a host has no spaces or line ends");
  require(std::all_of(address.path.begin(), address.path.end(), is_graphic) && !address.path.ends_with('/'),
          "a path can stand before every request's");
  std::string written = address.to_string();
  if (!address.is_path) {
    require(address.port != 0, "a port is not 0");
    written = (address.scheme == scheme::https ? "https://" : "http://") + written + '/';
  }
  agent_address same;
  require(!parse_address(written, same) && same == address, "an address survives being written");
}

void check_proxy(std::string_view text) {
  proxy_address proxy;
  const error_code ec = parse_proxy(text, proxy);
  if (ec) {
    require(ec == error::invalid_address || ec == error::unsupported_scheme, "a proxy is refused for what it is");
    return;
  }
  require(proxy.at.scheme == scheme::http && proxy.at.port != 0, "a proxy is spoken to");
  require(
      std::all_of(proxy.credentials.begin(), proxy.credentials.end(), [](char c) { return is_graphic(c) || c == ' '; }),
      "credentials are one line");
  require(is_excepted(proxy.at, proxy.at.host + ":" + std::to_string(proxy.at.port)) ||
              proxy.at.host.find(':') != std::string::npos || proxy.at.host.ends_with('.'),
          "a host is named by its own name");
  is_excepted(proxy.at, text);
}

void check_duration(std::string_view text) {
  nanoseconds time{-1};
  if (!parse_go_duration(text, time)) {
    require(time == nanoseconds(-1), "a refused duration leaves the target alone");
    return;
  }
  require(time >= nanoseconds(0), "a duration is not negative");
  nanoseconds same{-1};
  require(parse_go_duration(testing::detail::go_duration(time), same) && same == time,
          "a duration survives being written as Go does");
  const auto milliseconds = std::chrono::floor<std::chrono::milliseconds>(time);
  require(parse_go_duration(to_go_duration(milliseconds), same) && same == milliseconds,
          "a duration survives being written as we do");

  // A duration is the sum of its parts, wherever it is cut ("0" without a unit is one only by itself).
  for (std::size_t cut = 1; cut < text.size(); ++cut) {
    nanoseconds left{0};
    nanoseconds right{0};
    if (parse_go_duration(text.substr(0, cut), left) && parse_go_duration(text.substr(cut), right))
      require(left + right == time, "a duration is the sum of its parts");
  }
}

void check_base64(std::string_view text) {
  std::string bytes;
  std::string again;
  if (decode_base64(text, bytes)) {
    append_base64(again, bytes);
    require(again == text, "what decodes is the one encoding of its bytes");
  }
  std::string encoded;
  append_base64(encoded, text);
  require(encoded.size() == (text.size() + 2) / 3 * 4, "base64 is padded");
  require(decode_base64(encoded, bytes) && bytes == text, "base64 survives");
}

void check_encoded(std::string_view text, std::string_view encoded, bool slashes) {
  for (const char c : encoded) {
    require(is_graphic(c) && c != '?' && c != '#' && c != '&' && c != '=' && c != '+' && (slashes || c != '/'),
            "an encoded text ends neither path nor query");
  }
  require(net::percent_decoded(encoded) == text, "an encoded text survives");
}

void check_decoded(std::string_view text) {
  const auto decoded = net::percent_decoded(text);
  const auto percents = static_cast<std::size_t>(std::count(text.begin(), text.end(), '%'));
  if (decoded) require(decoded->size() + 2 * percents == text.size(), "each escape becomes one byte");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  check_address(text);
  check_proxy(text);
  check_duration(text);
  check_base64(text);
  std::string encoded;
  net::append_encoded(encoded, text);
  check_encoded(text, encoded, false);
  check_decoded(text);
  encoded.clear();
  append_encoded_key(encoded, text);
  check_encoded(text, encoded, true);
  return 0;
}
