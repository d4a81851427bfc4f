// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/login_source.hpp"

#include <cstddef>
#include <utility>

#include "net/secret_file.hpp"
#include "rabbitmq/config_check.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

constexpr std::string_view guest = "guest";
constexpr std::size_t file_bytes_max = 2 * password_bytes_max - 1;  // with the white space at its ends

// The texts of the errors have nothing of the file's content.
std::string in_file(const std::string& path) {
  const std::string name = "password_file \"" + path + '"';
  auto text = net::secret_in_file(path, file_bytes_max);
  if (!text) throw system_error(error::invalid_option, name + " cannot be read, or is too large");
  if (text->empty()) throw system_error(error::invalid_option, name + " is empty");
  if (text->size() > password_bytes_max || text->find('\0') != std::string::npos)
    throw system_error(error::invalid_option, name + " must have at most 1,024 bytes, and no zero byte");
  return std::move(*text);
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
    why = e.what();
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
