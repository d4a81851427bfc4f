// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <holdfast/consul/config.hpp>
#include <memory>
#include <optional>
#include <string>

#include "consul/net_names.hpp"
#include "net/asio.hpp"
#include "platform/file_stamp.hpp"

namespace holdfast::consul::detail {

/// Provides the ACL token of requests: a fixed one, the content of a file, or the result of a user's function. Lives on
/// the strand.
///
/// Consul may not know a new token for a while. An agent may cache for up to 30 s that there is no such token, and a
/// server may be behind the leader. So a new token of a file or a function may be in doubt for
/// `config::new_token_grace` from its first use. While it is in doubt, the token that was accepted before it is used,
/// if there is one, and a request tries the new one every `retry_interval`.
class token_source {
public:
  using complaint = std::function<void(std::string)>;
  struct token {
    std::shared_ptr<const std::string> text;
    unsigned version = 0;  ///< another number for each token
  };

  static constexpr std::chrono::seconds retry_interval{1};

  /// Reads the first token. Throws `system_error`: invalid_option, if the file cannot be read or the token cannot be
  /// sent. Exceptions of the user's function are passed on.
  explicit token_source(const config& settings);

  /// Returns the token for a request that is sent now. If a new token cannot be read or sent, the last one stays in
  /// use, and `complain` is called once for each new reason.
  token get(time_point now, const complaint& complain);
  /// To be called when Consul's answer shows that it knows the token of this version.
  void accepted(unsigned version) noexcept;
  /// To be called when the token of this version lacks a right. Reads the token again if it is still the newest one.
  /// Returns true if there is another token now.
  bool has_another(unsigned version, const complaint& complain);

  /// The next step of a request whose token Consul does not know.
  enum class advice {
    send_again,  ///< send the request again at once, with another token
    wait,        ///< Consul may know the token soon
    give_up,     ///< the token had its time, or has none
  };
  /// To be called when Consul does not know the token of this version. Reads the token again if it is still the newest
  /// one. Sets `is_news` if the token is in doubt for the first time.
  advice unknown(unsigned version, time_point now, const complaint& complain, bool& is_news);

private:
  std::string read(bool is_first) const;
  void read_token(const complaint& complain);
  bool may_change() const noexcept { return settings_.token_function || !settings_.token_file.empty(); }

  const config& settings_;
  token newest_;
  bool is_accepted_ = false;            // Consul has accepted the newest token
  bool is_in_doubt_ = false;            // Consul did not know the newest token when a request last used it
  bool is_told_ = false;                // `unknown` has set `is_news` for the newest token
  std::optional<time_point> used_at_;   // when a request first used the newest token
  time_point try_at_{};                 // when a request tries the newest token again, if it is in doubt
  std::optional<token> accepted_last_;  // the token that Consul accepted before the newest one
  platform::file_stamp stamp_;
  std::optional<time_point> read_at_;  // when `get` last checked whether the file has changed
  std::string complaint_;
};

}  // namespace holdfast::consul::detail
