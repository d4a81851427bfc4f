// Proves that the headers are found, and that the library links: an error's message is in it.
#include <cstring>
#include <holdfast/error.hpp>
#include <holdfast/version.hpp>
#include <iostream>

int main(int argc, char** argv) {
  const auto message = make_error_code(holdfast::error::slot_lost).message();
  std::cout << "holdfast " << HOLDFAST_VERSION_STRING << ": \"" << message << "\"\n";
  const bool expected_version = argc == 2 && std::strcmp(argv[1], HOLDFAST_VERSION_STRING) == 0;
  return expected_version && !message.empty() ? 0 : 1;
}
