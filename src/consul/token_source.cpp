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
  newest_.text = std::make_shared<const std::string>(read(true));
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

void token_source::read_token(const complaint& complain) {
  std::string why;
  try {
    std::string found = read(false);
    if (found != *newest_.text) {
      const bool is_known = accepted_last_ && found == *accepted_last_->text;
      const token next{std::make_shared<const std::string>(std::move(found)), newest_.version + 1};
      if (is_accepted_) accepted_last_ = newest_;
      newest_ = next;
      is_accepted_ = is_known;
      is_in_doubt_ = is_told_ = false;
      used_at_.reset();
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

token_source::token token_source::get(time_point now, const complaint& complain) {
  if (settings_.token_function) {
    read_token(complain);
  } else if (!settings_.token_file.empty() && (!read_at_ || now - *read_at_ >= read_interval)) {
    read_at_ = now;
    const platform::file_stamp seen(settings_.token_file);
    if (seen != stamp_) read_token(complain);
    stamp_ = seen;
  }
  if (is_in_doubt_ && accepted_last_) {
    if (now < try_at_) return *accepted_last_;
    try_at_ = now + retry_interval;
  }
  if (!used_at_) used_at_ = now;
  return newest_;
}

void token_source::accepted(unsigned version) noexcept {
  if (version != newest_.version) return;
  is_accepted_ = true;
  is_in_doubt_ = false;
}

bool token_source::has_another(unsigned version, const complaint& complain) {
  if (version == newest_.version) read_token(complain);
  if (version == newest_.version) return false;
  try_at_ = time_point::min();  // an older token was refused, so the next request tries the newest one
  return true;
}

token_source::advice token_source::unknown(unsigned version, time_point now, const complaint& complain, bool& is_news) {
  if (has_another(version, complain)) {
    if (accepted_last_ && accepted_last_->version == version) accepted_last_.reset();  // it has ended
    return advice::send_again;
  }
  const bool has_time = may_change() && used_at_ && now - *used_at_ < settings_.new_token_grace;
  if (!has_time) {
    accepted_last_.reset();
    return advice::give_up;
  }
  is_in_doubt_ = true;
  is_news = !std::exchange(is_told_, true);
  try_at_ = now + retry_interval;
  return accepted_last_ ? advice::send_again : advice::wait;
}

}  // namespace holdfast::consul::detail
