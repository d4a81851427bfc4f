// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/token_source.hpp"

#include <utility>

#include "consul/config_check.hpp"
#include "net/secret_file.hpp"

namespace holdfast::consul::detail {
namespace {

// The least time between two checks whether the file has changed. If it has, it is read. After Consul has refused the
// token, the file is read at once and without a check.
constexpr std::chrono::seconds read_interval{1};

constexpr std::size_t token_size_max = 16 * 1024;

std::string in_file(const std::string& path) {
  auto text = net::secret_in_file(path, token_size_max);
  if (!text) throw system_error(error::invalid_option, "token_file \"" + path + "\" cannot be read");
  return std::move(*text);
}

}  // namespace

token_source::token_source(const config& settings) : settings_(settings) {
  if (!settings_.token_file.empty()) stamp_ = platform::file_stamp(settings_.token_file);
  token_ = std::make_shared<const std::string>(read(true));
}

// A file that has become empty is probably about to be written, so it is not taken for "no token": without a token, the
// client would have other permissions.
std::string token_source::read(bool is_first) const {
  std::string found = settings_.token_function       ? settings_.token_function()
                      : settings_.token_file.empty() ? std::string()
                                                     : in_file(settings_.token_file);
  if (found.empty() && !settings_.token_file.empty() && !is_first) {
    throw system_error(error::invalid_option, "token_file \"" + settings_.token_file + "\" is empty");
  }
  if (found.empty() && !settings_.token_function) found = settings_.token;
  // The message does not contain the token, because it is logged.
  if (!is_header_text(found))
    throw system_error(error::invalid_option, "the token must be printable ASCII without spaces");
  return found;
}

void token_source::read_token(const std::function<void(std::string)>& complain) {
  std::string why;
  try {
    std::string found = read(false);
    if (found != *token_) {
      token_ = std::make_shared<const std::string>(std::move(found));
      ++version_;
    }
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) {
    why = "the function has thrown";
  }
  if (complaint_ == why) return;
  complaint_ = why;
  if (!why.empty()) complain(std::move(why));
}

std::shared_ptr<const std::string> token_source::get(time_point now, const std::function<void(std::string)>& complain) {
  if (settings_.token_function) {
    read_token(complain);
  } else if (!settings_.token_file.empty() && (!read_at_ || now - *read_at_ >= read_interval)) {
    read_at_ = now;
    const platform::file_stamp seen(settings_.token_file);
    if (seen != stamp_) read_token(complain);
    stamp_ = seen;
  }
  return token_;
}

bool token_source::has_another(unsigned version, const std::function<void(std::string)>& complain) {
  if (version == version_) read_token(complain);
  return version != version_;
}

}  // namespace holdfast::consul::detail
