// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Prepares a broker for the suite `tls` of on_a_broker/: `rabbitmq_tls_files FOLDER PORT`, before the broker starts.
// FOLDER is the broker's folder, which the broker sees as /var/lib/rabbitmq. PORT is the port for amqps. FOLDER/tls
// gets the certificates: that of the authority, that of the broker for 127.0.0.1, and those of two clients.

#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>

#include "support/certificates.hpp"

namespace {

using holdfast::test::authority;
using holdfast::test::identity;

void write(const std::filesystem::path& file, const std::string& text) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream to(file, std::ios::binary);
  to << text << std::flush;
  if (!to) throw std::runtime_error("cannot write " + file.string());
}

void write(const std::filesystem::path& folder, const std::string& name, const identity& its) {
  write(folder / (name + ".pem"), its.certificate);
  write(folder / (name + ".key"), its.key);
}

std::string configuration(const std::string& port) {
  const std::string files = "/var/lib/rabbitmq/tls/";
  return "listeners.ssl.local = 127.0.0.1:" + port + "\nssl_options.cacertfile = " + files +
         "ca.pem\nssl_options.certfile = " + files + "broker.pem\nssl_options.keyfile = " + files +
         "broker.key\n"
         "ssl_options.verify = verify_peer\n"
         "ssl_options.fail_if_no_peer_cert = false\n"
         "ssl_cert_login_from = common_name\n"
         "auth_mechanisms.1 = PLAIN\n"
         "auth_mechanisms.2 = EXTERNAL\n";
}

}  // namespace

int main(int count, char** words) try {
  if (count != 3) throw std::invalid_argument("FOLDER and PORT are needed");
  const std::filesystem::path folder = words[1], files = folder / "tls";
  const authority ca;
  write(files / "ca.pem", ca.certificate());
  write(files, "broker", ca.issue({{"127.0.0.1"}}));
  write(files, "worker", ca.issue({.common_name = "tls-worker"}));
  write(files, "nobody", ca.issue({.common_name = "tls-nobody"}));
  write(folder / "conf.d/20-tls.conf", configuration(words[2]));
  write(folder / "enabled_plugins", "[rabbitmq_auth_mechanism_ssl].\n");
  return 0;
} catch (const std::exception& failure) {
  std::cerr << "rabbitmq_tls_files: " << failure.what() << '\n';
  return 1;
}
