// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/login_source.hpp"

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <utility>

#include "rabbitmq/config_check.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

constexpr std::string_view guest = "guest";

// The texts of the errors have nothing of the file's content.
std::string in_file(const std::string& path) {
  const std::string name = "password_file \"" + path + '"';
  std::ifstream file(path, std::ios::binary);
  std::string text(2 * password_bytes_max, '\0');
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!file.eof()) throw system_error(error::invalid_option, name + " cannot be read, or is too large");
  text.resize(static_cast<std::size_t>(file.gcount()));
  constexpr std::string_view space = " \t\r\n\v\f";
  text.erase(text.find_last_not_of(space) + 1);
  text.erase(0, std::min(text.find_first_not_of(space), text.size()));
  if (text.empty()) throw system_error(error::invalid_option, name + " is empty");
  if (text.size() > password_bytes_max || text.find('\0') != std::string::npos)
    throw system_error(error::invalid_option, name + " must have at most 1,024 bytes, and no zero byte");
  return text;
}

}  // namespace

login_source::login_source(const config& settings)
    : settings_(settings),
      password_(settings.password_file.empty() ? settings.password : in_file(settings.password_file)) {}

void login_source::read_again(const std::function<void(std::string)>& complain) {
  std::string why;
  try {
    password_ = in_file(settings_.password_file);
  } catch (const system_error& e) {
    why = std::string("no new password: ") + e.what();
  }
  if (std::exchange(complaint_, why) != why && !why.empty()) complain(std::move(why));
}

login login_source::get(const broker_address& to, const std::function<void(std::string)>& complain) {
  if (!settings_.password_file.empty()) read_again(complain);
  std::string user = to.user.value_or(settings_.user);
  std::string password = to.password.value_or(password_);
  const bool has_certificate = to.is_tls && !settings_.tls.certificate_file.empty();
  if (user.empty() && password.empty()) {
    if (has_certificate) return {"EXTERNAL", {}};
    user = password = guest;
  }
  std::string response(1, '\0');
  response += user;
  response += '\0';
  response += password;
  return {"PLAIN", std::move(response)};
}

std::string login_source::without_secrets(std::string text, const broker_address& of) const {
  const std::string secret = of.password.value_or(password_);
  constexpr std::string_view in_its_place = "(hidden)";
  if (secret.empty()) return text;
  for (auto at = text.find(secret); at != std::string::npos; at = text.find(secret, at + in_its_place.size()))
    text.replace(at, secret.size(), in_its_place);
  return text;
}

}  // namespace holdfast::rabbitmq::detail
