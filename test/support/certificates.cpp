// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/certificates.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <boost/asio/ip/address.hpp>
#include <stdexcept>

namespace holdfast::test {
namespace {

template <auto Free>
struct freeing {
  template <class T>
  void operator()(T* what) const noexcept {
    Free(what);
  }
};
using key_ptr = std::unique_ptr<EVP_PKEY, freeing<EVP_PKEY_free>>;
using x509_ptr = std::unique_ptr<X509, freeing<X509_free>>;
using bio_ptr = std::unique_ptr<BIO, freeing<BIO_free_all>>;
using extension_ptr = std::unique_ptr<X509_EXTENSION, freeing<X509_EXTENSION_free>>;

template <class T>
T* must(T* made) {
  if (made == nullptr) throw std::runtime_error("OpenSSL cannot make a certificate");
  return made;
}

key_ptr make_key(bool rsa = false) { return key_ptr(must(rsa ? EVP_RSA_gen(2048U) : EVP_EC_gen("P-256"))); }

template <class Write>
std::string pem_of(Write write) {
  const bio_ptr memory(must(BIO_new(BIO_s_mem())));
  if (write(memory.get()) != 1) throw std::runtime_error("OpenSSL cannot write PEM");
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string pem_of(X509* certificate) {
  return pem_of([&](BIO* to) { return PEM_write_bio_X509(to, certificate); });
}
std::string pem_of(EVP_PKEY* key) {
  return pem_of([&](BIO* to) { return PEM_write_bio_PrivateKey(to, key, nullptr, nullptr, 0, nullptr, nullptr); });
}

void add(X509* to, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, to, nullptr, nullptr, 0);
  const extension_ptr made(must(X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str())));
  X509_add_ext(to, made.get(), -1);
}

std::string alternative_names(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) {
    boost::system::error_code not_ip;
    boost::asio::ip::make_address(name, not_ip);
    list += (list.empty() ? "" : ",") + std::string(not_ip ? "DNS:" : "IP:") + name;
  }
  return list;
}

/// Makes a certificate. `issuer` is null if the certificate signs itself.
x509_ptr make(const certificate_request& request, EVP_PKEY* key, X509* issuer, EVP_PKEY* signing, bool is_authority) {
  static std::atomic<long> serial{1};
  x509_ptr made(must(X509_new()));
  X509_set_version(made.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(made.get()), serial++);
  X509_gmtime_adj(X509_getm_notBefore(made.get()), static_cast<long>(request.from.count()));
  X509_gmtime_adj(X509_getm_notAfter(made.get()), static_cast<long>(request.until.count()));
  X509_set_pubkey(made.get(), key);
  const std::string name = is_authority ? "test authority " + std::to_string(serial) : request.common_name;
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509* const by = issuer == nullptr ? made.get() : issuer;
  X509_set_issuer_name(made.get(), X509_get_subject_name(by));
  add(made.get(), by, NID_basic_constraints, is_authority ? "critical,CA:TRUE" : "CA:FALSE");
  if (is_authority) add(made.get(), by, NID_key_usage, "critical,keyCertSign");
  if (!request.names.empty()) add(made.get(), by, NID_subject_alt_name, alternative_names(request.names));
  if (X509_sign(made.get(), signing, EVP_sha256()) == 0) throw std::runtime_error("OpenSSL cannot sign");
  return made;
}

}  // namespace

struct authority::state {
  key_ptr key = make_key();
  x509_ptr own = make({}, key.get(), nullptr, key.get(), true);
  std::string pem = pem_of(own.get());
};

authority::authority() : state_(std::make_unique<state>()) {}
authority::~authority() = default;
authority::authority(authority&&) noexcept = default;
authority& authority::operator=(authority&&) noexcept = default;

const std::string& authority::certificate() const { return state_->pem; }

identity authority::issue(const certificate_request& request) const {
  const key_ptr key = make_key(request.rsa);
  return {pem_of(make(request, key.get(), state_->own.get(), state_->key.get(), false).get()), pem_of(key.get())};
}

identity authority::self_signed(const certificate_request& request) {
  const key_ptr key = make_key(request.rsa);
  return {pem_of(make(request, key.get(), nullptr, key.get(), false).get()), pem_of(key.get())};
}

}  // namespace holdfast::test
