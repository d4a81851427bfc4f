// Proves that the headers are found, and that both libraries link: an error's message is in one, a server in the other.
#include <cstring>
#include <holdfast/error.hpp>
#include <holdfast/testing/server.hpp>
#include <holdfast/version.hpp>
#include <iostream>

int main(int argc, char** argv) {
  const auto message = make_error_code(holdfast::error::slot_lost).message();
  const holdfast::testing::server stand_in;
  std::cout << "holdfast " << HOLDFAST_VERSION_STRING << ": \"" << message << "\", and a stand-in for Consul at "
            << stand_in.url() << '\n';
  const bool expected_version = argc == 2 && std::strcmp(argv[1], HOLDFAST_VERSION_STRING) == 0;
  return expected_version && !message.empty() ? 0 : 1;
}
