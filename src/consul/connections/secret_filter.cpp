// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/connections/secret_filter.hpp"

#include "consul/connections/proxy.hpp"

namespace holdfast::consul::detail {
namespace {

void hide(std::string& text, std::string_view secret) {
  if (secret.empty()) return;
  constexpr std::string_view in_its_place = "(hidden)";
  for (auto at = text.find(secret); at != std::string::npos; at = text.find(secret, at + in_its_place.size())) {
    text.replace(at, secret.size(), in_its_place);
  }
}

}  // namespace

void secret_filter::add_login(const std::string& login) {
  if (login.empty()) return;
  const std::string sent = basic_credentials(login);
  secrets_.push_back(sent);
  secrets_.push_back(sent.substr(sent.find(' ') + 1));
  secrets_.push_back(login);
  if (const auto colon = login.find(':'); colon != std::string::npos) secrets_.push_back(login.substr(colon + 1));
}

std::string secret_filter::without_secrets(std::string_view text, const std::string* token) const {
  std::string shown(text.substr(0, scanned_max));
  if (token != nullptr) hide(shown, *token);
  for (const std::string& each : secrets_) hide(shown, each);
  return shown;
}

}  // namespace holdfast::consul::detail
