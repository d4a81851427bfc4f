// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/tls.hpp"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "platform/file_stamp.hpp"

namespace holdfast::net {
namespace {

namespace ssl = asio::ssl;
namespace fs = std::filesystem;

template <auto Free>
struct freeing {
  template <class T>
  void operator()(T* what) const noexcept {
    Free(what);
  }
};
using session_ptr = std::unique_ptr<SSL_SESSION, freeing<SSL_SESSION_free>>;
using names_ptr = std::unique_ptr<GENERAL_NAMES, freeing<GENERAL_NAMES_free>>;

using stamps = std::vector<std::pair<std::string, platform::file_stamp>>;

[[noreturn]] void refuse(const std::string& option, const std::string& file, const std::string& why) {
  throw system_error(error::invalid_option, "tls." + option + " \"" + file + "\": " + why);
}
[[noreturn]] void refuse(const std::string& option, const std::string& file, const error_code& why) {
  refuse(option, file, why.message());
}

// All regular files in a folder and its subfolders, in the order of their names.
std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code ec;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::follow_directory_symlink, ec), end;
       !ec && at != end; at.increment(ec)) {
    if (at->is_regular_file(ec)) found.push_back(at->path().string());
  }
  if (ec) refuse("ca_path", folder, ec);
  std::sort(found.begin(), found.end());
  return found;
}

stamps stamps_of(const tls_options& options) {
  stamps result;
  const auto add = [&](const std::string& file) {
    if (!file.empty()) result.emplace_back(file, platform::file_stamp(file));
  };
  add(options.ca_file);
  if (options.ca_file.empty() && !options.ca_path.empty()) {
    for (const std::string& file : files_in(options.ca_path)) add(file);
  }
  add(options.certificate_file);
  add(options.key_file);
  return result;
}

void load_authorities(ssl::context& into, const tls_options& options) {
  error_code ec;
  if (!options.ca_file.empty()) {
    into.load_verify_file(options.ca_file, ec);
    if (ec) refuse("ca_file", options.ca_file, ec);
  } else if (!options.ca_path.empty()) {
    const std::vector<std::string> files = files_in(options.ca_path);
    if (files.empty()) refuse("ca_path", options.ca_path, asio::error::not_found);
    for (const std::string& file : files) {
      into.load_verify_file(file, ec);
      if (ec) refuse("ca_path", file, ec);
    }
  } else {
    into.set_default_verify_paths(ec);
    if (ec) throw system_error(error::invalid_option, "the system's certificate authorities: " + ec.message());
  }
}

std::shared_ptr<ssl::context> load(const tls_options& options) {
  auto made = std::make_shared<ssl::context>(ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(made->native_handle(), TLS1_2_VERSION);
  if (!options.insecure_skip_verify) load_authorities(*made, options);
  if (options.certificate_file.empty()) return made;
  // Without this callback, OpenSSL asks for the password of an encrypted key on the terminal.
  made->set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); });
  error_code ec;
  made->use_certificate_chain_file(options.certificate_file, ec);
  if (ec) refuse("certificate_file", options.certificate_file, ec);
  made->use_private_key_file(options.key_file, ssl::context::pem, ec);
  if (ec) refuse("key_file", options.key_file, ec);
  // The call above compares the key with a certificate of the same type only. An older error in OpenSSL's queue would
  // be read as the reason.
  ERR_clear_error();
  if (SSL_CTX_check_private_key(made->native_handle()) != 1) {
    const error_code why(static_cast<int>(ERR_get_error()), asio::error::get_ssl_category());
    refuse("key_file", options.key_file,
           "the key does not fit tls.certificate_file \"" + options.certificate_file + "\": " + why.message());
  }
  return made;
}

// A session that can be resumed until the first of the agent's certificates expires. A resumed handshake does not
// verify the certificates again.
struct kept_session {
  session_ptr session;
  std::chrono::sys_seconds until;  // the year 9999 does not fit into nanoseconds
};

// The certificates that were read at one time, and the sessions that were made with them. So no session is resumed with
// other certificates.
struct generation {
  std::shared_ptr<ssl::context> context;
  std::map<std::string, kept_session> sessions{};  // by the agent's address
};

std::chrono::sys_seconds end_of(const X509* certificate) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) return std::chrono::sys_seconds::min();
  const std::chrono::year_month_day day{std::chrono::year(end.tm_year + 1900),
                                        std::chrono::month(static_cast<unsigned>(end.tm_mon) + 1),
                                        std::chrono::day(static_cast<unsigned>(end.tm_mday))};
  return std::chrono::sys_days(day) + std::chrono::hours(end.tm_hour) + std::chrono::minutes(end.tm_min) +
         std::chrono::seconds(end.tm_sec);
}

std::chrono::sys_seconds first_end_in(const STACK_OF(X509) * chain) {
  auto first = std::chrono::sys_seconds::min();
  for (int i = 0; chain != nullptr && i < sk_X509_num(chain); ++i) {
    const auto end = end_of(sk_X509_value(chain, i));
    first = i == 0 ? end : std::min(first, end);
  }
  return first;
}

std::string text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

// The first 10 names that the certificate is for, in readable form: DNS names and IP addresses. The certificate comes
// from an untrusted peer, so only printable characters are kept.
std::string names_in(X509* certificate) {
  std::string list;
  const names_ptr names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  constexpr int listed_max = 10;
  const int count = names ? sk_GENERAL_NAME_num(names.get()) : 0;
  for (int i = 0; i < std::min(count, listed_max); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names.get(), i);
    std::string text;
    if (name->type == GEN_DNS) {
      text = text_of(name->d.dNSName);
    } else if (name->type == GEN_IPADD) {
      const std::string bytes = text_of(name->d.iPAddress);
      if (bytes.size() == 4) {
        asio::ip::address_v4::bytes_type v4;
        std::copy(bytes.begin(), bytes.end(), v4.begin());
        text = asio::ip::address_v4(v4).to_string();
      } else if (bytes.size() == 16) {
        asio::ip::address_v6::bytes_type v6;
        std::copy(bytes.begin(), bytes.end(), v6.begin());
        text = asio::ip::address_v6(v6).to_string();
      }
    }
    std::erase_if(text, [](char c) { return c <= 0x20 || c >= 0x7f; });
    if (text.empty()) continue;
    list += (list.empty() ? "" : ", ") + text.substr(0, 253);
  }
  if (count > listed_max) list += ", ...";
  return list.empty() ? "no host" : list;
}

// Returns true if the error is an alert by which the agent refuses our certificate, or asks for one.
bool is_about_our_certificate(const error_code& ec) {
  if (ec.category() != asio::error::get_ssl_category()) return false;
  switch (ERR_GET_REASON(static_cast<unsigned long>(ec.value()))) {
    case SSL_R_SSLV3_ALERT_NO_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
      return true;
    default:
      return false;
  }
}

class client_of_openssl;

class stream_of_openssl final : public tls_stream {
public:
  stream_of_openssl(const tls_options& options, std::shared_ptr<generation> with, socket_type& below,
                    const address& to);
  ~stream_of_openssl() override {
    // OpenSSL does not resume the session of a connection that is destroyed without a shutdown.
    SSL_set_shutdown(stream_.native_handle(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  }

  awaitable<tls_failure> handshake() override;
  awaitable<transferred> write(asio::const_buffer bytes) override;
  awaitable<transferred> read_some(asio::mutable_buffer space) override;
  void keep_session() override;
  bool is_quiet() const noexcept override;

private:
  bool set_up();
  bool judge(bool accepted, ssl::verify_context& about);

  const tls_options& options_;
  const std::shared_ptr<generation> with_;
  const std::string key_;
  const std::string name_;                    // the name that the certificate must be for
  mutable ssl::stream<socket_type&> stream_;  // native_handle() is not const
  std::string refusal_;
  bool is_set_up_;
  bool is_kept_ = false;  // keep_session() was called, so the agent has answered
};

stream_of_openssl::stream_of_openssl(const tls_options& options, std::shared_ptr<generation> with, socket_type& below,
                                     const address& to)
    : options_(options),
      with_(std::move(with)),
      key_(to.authority()),
      name_(certificate_name(options.server_name.empty() ? to.host : options.server_name)),
      stream_(below, *with_->context),
      is_set_up_(set_up()) {}

// Returns true if there is a name to verify and OpenSSL has accepted all settings. Also takes the session to resume, if
// there is one.
bool stream_of_openssl::set_up() {
  SSL* const native = stream_.native_handle();
  error_code not_ip;
  asio::ip::make_address(name_, not_ip);
  bool is_accepted = !name_.empty();  // OpenSSL verifies no name if there is none
  if (not_ip) {
    is_accepted = is_accepted && SSL_set_tlsext_host_name(native, name_.c_str()) == 1 &&
                  SSL_set1_host(native, name_.c_str()) == 1;
  } else {
    is_accepted = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(native), name_.c_str()) == 1;
  }
  // As in Go, only the names in the certificate's extension count, never the subject.
  SSL_set_hostflags(native, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  // Set on the connection and not on the context, because the context may belong to the application and serve other
  // connections.
  const long oldest = std::max<long>(TLS1_2_VERSION, SSL_get_min_proto_version(native));
  is_accepted = SSL_set_min_proto_version(native, oldest) == 1 && is_accepted;
  error_code ec;
  stream_.set_verify_mode(options_.insecure_skip_verify ? ssl::verify_none : ssl::verify_peer, ec);
  if (!ec && !options_.insecure_skip_verify) {
    stream_.set_verify_callback([this](bool accepted, ssl::verify_context& about) { return judge(accepted, about); },
                                ec);
  }
  is_accepted = !ec && is_accepted;
  const auto known = with_->sessions.find(key_);
  if (known == with_->sessions.end()) return is_accepted;
  SSL_SESSION* const session = known->second.session.get();
  const bool is_once = SSL_SESSION_get_protocol_version(session) >= TLS1_3_VERSION;  // RFC 8446, C.4
  const bool is_valid =
      std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now()) < known->second.until;
  if (is_valid) SSL_set_session(native, session);  // otherwise the handshake is a full one
  if (!is_valid || is_once) with_->sessions.erase(known);
  return is_accepted;
}

// Called with OpenSSL's verdict on a certificate, and does not change it. Composes the reason of a refusal, which is
// known only during this call.
bool stream_of_openssl::judge(bool accepted, ssl::verify_context& about) {
  if (accepted || !refusal_.empty()) return accepted;
  X509_STORE_CTX* const state = about.native_handle();
  refusal_ = X509_verify_cert_error_string(X509_STORE_CTX_get_error(state));
  refusal_ += "; expected: " + name_;
  if (X509* const leaf = X509_STORE_CTX_get0_cert(state)) refusal_ += "; the certificate is for: " + names_in(leaf);
  refusal_ += options_.context            ? "; by the application's own ssl::context"
              : !options_.ca_file.empty() ? "; tls.ca_file: " + options_.ca_file
              : !options_.ca_path.empty() ? "; tls.ca_path: " + options_.ca_path
                                          : "; by the system's certificate authorities";
  return false;
}

awaitable<tls_failure> stream_of_openssl::handshake() {
  if (!is_set_up_) {
    tls_failure refused;
    refused.error = error::certificate_refused;
    refused.message = "OpenSSL does not accept the settings for \"" + name_ + '"';
    co_return refused;
  }
  auto [ec] = co_await stream_.async_handshake(ssl::stream_base::client, as_result);
  tls_failure result;
  if (!ec) co_return result;
  result.cause = ec == ssl::error::stream_truncated ? error_code(asio::error::eof) : ec;
  result.error = error::unreachable;
  if (!refusal_.empty()) {
    result.error = error::certificate_refused;
    result.message = refusal_;
  } else if (is_about_our_certificate(ec)) {
    result.error = error::client_certificate_refused;
  }
  co_return result;
}

awaitable<transferred> stream_of_openssl::write(asio::const_buffer bytes) {
  auto [ec, n] = co_await asio::async_write(stream_, bytes, as_result);
  co_return transferred{ec, n};
}

awaitable<transferred> stream_of_openssl::read_some(asio::mutable_buffer space) {
  auto [ec, n] = co_await stream_.async_read_some(space, as_result);
  transferred result{ec, n};
  // With TLS 1.3, our side of the handshake completes before the agent has verified our certificate.
  if (!is_kept_ && is_about_our_certificate(ec)) result.error = error::client_certificate_refused;
  co_return result;
}

void stream_of_openssl::keep_session() {
  if (std::exchange(is_kept_, true)) return;
  SSL* const native = stream_.native_handle();
  session_ptr its(SSL_get1_session(native));
  if (!its || SSL_SESSION_is_resumable(its.get()) != 1) return;
  with_->sessions[key_] = {std::move(its), first_end_in(SSL_get_peer_cert_chain(native))};
}

// Bytes that `ssl::stream` has read from the socket are in OpenSSL, or in the BIO between the stream and OpenSSL. The
// stream never reads more than fits into the BIO.
bool stream_of_openssl::is_quiet() const noexcept {
  SSL* const native = stream_.native_handle();
  return SSL_has_pending(native) == 0 && BIO_ctrl_pending(SSL_get_rbio(native)) == 0;
}

class client_of_openssl final : public tls_client {
public:
  client_of_openssl(const tls_options& options, std::function<void(log_event&&)> log)
      : options_(options), log_{std::move(log)}, current_(std::make_shared<generation>()) {
    stamps_ = stamps_of(options_);
    current_->context = options_.context ? options_.context : load(options_);
  }

  std::unique_ptr<tls_stream> open(socket_type& below, const address& to) override {
    if (!options_.context) renew_if_changed();
    if (options_.insecure_skip_verify && !std::exchange(has_warned_, true))
      log_({.kind = log_kind::tls_not_verified, .key = to.authority()});
    return std::make_unique<stream_of_openssl>(options_, current_, below, to);
  }

private:
  // If the new files cannot be used, for example because one is half written or the key does not match the certificate
  // yet, the old certificates stay in use. The next connection tries again.
  void renew_if_changed() {
    try {
      stamps seen = stamps_of(options_);
      if (seen == stamps_) return;
      auto next = std::make_shared<generation>();
      next->context = load(options_);
      current_ = std::move(next);
      stamps_ = std::move(seen);
      told_ = {};
    } catch (const system_error& e) {
      if (std::exchange(told_, e.what()) != e.what()) log_({.kind = log_kind::certificate_unusable, .cause = e.what()});
    }
  }

  const tls_options options_;
  const std::function<void(log_event&&)> log_;
  stamps stamps_;
  std::shared_ptr<generation> current_;
  std::string told_;
  bool has_warned_ = false;
};

}  // namespace

std::unique_ptr<tls_client> make_tls_client(const tls_options& options, std::function<void(log_event&&)> log,
                                            bool is_needed) {
  const bool has_files = !options.ca_file.empty() || !options.ca_path.empty() || !options.certificate_file.empty();
  if (!is_needed && !has_files) return nullptr;
  return std::make_unique<client_of_openssl>(options, std::move(log));
}

}  // namespace holdfast::net
