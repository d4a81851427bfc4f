// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The texts that people write to use RabbitMQ: addresses of brokers, and names of semaphores.

#include "rabbitmq/names.hpp"

#include <string>

#include "fuzz.hpp"
#include "net/utf8.hpp"
#include "protocol/broker/broker_events.hpp"
#include "rabbitmq/address.hpp"

using namespace holdfast;
using namespace holdfast::rabbitmq::detail;
using holdfast::fuzz::require;

namespace {

bool is_graphic(char c) { return c > 0x20 && c < 0x7f; }

void check_address(std::string_view text) {
  broker_address address;
  std::string_view cause;
  if (const error_code ec = parse_address(text, address, cause)) {
    require(ec == error::invalid_address || ec == error::unsupported_scheme, "an address is refused for what it is");
    require(!cause.empty() && address == broker_address(), "a refused address leaves the target alone");
    return;
  }
  require(!address.host.empty() && address.host.size() <= 253 && address.port != 0, "an address is complete");
  require(address.virtual_host.size() <= 255, "a virtual host fits into a method");
  require(!address.password || address.user, "a password is somebody's");
  const std::string written = address.to_string();
  require(std::all_of(written.begin(), written.end(), is_graphic), "a written address is one line");
  broker_address same;
  require(!parse_address(written, same, cause), "an address can be written");
  address.user.reset();
  address.password.reset();
  require(same == address, "an address survives being written");
}

// A password with a mark in it, and any text around the mark.
void check_password(std::string_view before, std::string_view behind) {
  constexpr std::string_view mark = "Xq7Zk";
  const auto has_mark = [&](std::string_view text) { return text.find(mark) != std::string_view::npos; };
  // Otherwise the mark would not be in the password alone.
  if (before.find_first_of("@/") != std::string_view::npos || behind.find('@') == std::string_view::npos) return;
  if (has_mark(behind) || has_mark(before)) return;
  std::string text("amqp://u:");
  text += before;
  text += mark;
  text += behind;
  broker_address address;
  std::string_view cause;
  if (parse_address(text, address, cause)) return require(!has_mark(cause), "no cause has the password");
  require(address.password && has_mark(*address.password), "a password is found");
  require(!has_mark(address.to_string()), "no written address has the password");
}

void check_names(std::string_view name, std::uint32_t slot) {
  std::string_view cause;
  if (const error_code ec = check_name(name, cause)) {
    require(ec == error::invalid_name && !cause.empty(), "a name is refused for what it is");
    return;
  }
  require(net::is_utf8(name) && !name.starts_with("amq."), "a broker accepts the name");
  for (const bool letter_first : {false, true}) {
    const queue_names queues{std::string(name), letter_first};
    for (const slot_queue each : {slot_queue::existence, slot_queue::holder, slot_queue::token}) {
      const std::string queue = queues.of_slot(slot, each);
      require(queue.size() <= 255, "the name of a queue fits into a method");
      require(queue.size() > name_bytes_max || check_name(queue, cause), "no queue has the name of a semaphore");
      require(queue != queues.hints(), "the queues of a semaphore differ");
    }
    require(queues.hints().size() > name_bytes_max || check_name(queues.hints(), cause),
            "no queue has the name of a semaphore");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  check_address(text);
  check_password(text.substr(0, text.size() / 2), text.substr(text.size() / 2));
  check_names(text, 1 + static_cast<std::uint32_t>(size) * 37 % protocol::slot_number_max);
  return 0;
}
