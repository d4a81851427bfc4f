// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <holdfast/testing/faults.hpp>
#include <optional>
#include <string>
#include <vector>

#include "testing/api.hpp"

namespace holdfast::testing::detail {

/// The effects of a fault on one request, roughly in the order in which they happen. `front` needs no other description
/// of a fault.
struct fault_steps {
  std::chrono::milliseconds delay{0};
  bool held = false;                   ///< held until thaw()
  bool names_other_key = false;        ///< a key in the target becomes another one
  bool ends_session = false;           ///< ends the session that the request names
  unsigned applications = 1;           ///< the number of times that the request is applied
  std::optional<api_reply> instead{};  ///< sent instead of Consul's reply
  bool resets_index = false;
  std::size_t refuses = 0;          ///< the number of later connections to refuse
  std::vector<unsigned> interim{};  ///< the statuses of interim replies before the reply
  enum class delivery {
    whole,
    half,          ///< half of its bytes; then the connection is closed
    byte_by_byte,  ///< one byte at a time, `between` apart
    none,          ///< no reply: the connection is reset
  } reply = delivery::whole;
  std::chrono::milliseconds between{0};
  std::optional<std::chrono::milliseconds> copy_after{};  ///< the request is applied again this long after the reply
  bool operator==(const fault_steps&) const = default;
};

fault_steps steps_of(const fault& what);

/// Changes the key that the target names, if it names one: "/v1/kv/a?raw".
void name_other_key(std::string& target);
/// Sets X-Consul-Index to 1.
void reset_index(api_reply& reply);

}  // namespace holdfast::testing::detail
