#pragma once

#include <chrono>
#include <cstddef>
#include <holdfast/testing/faults.hpp>
#include <optional>
#include <vector>

#include "testing/api.hpp"

namespace holdfast::testing::detail {

/// What a fault means for one request, nearly in the order in which it happens: all that `front` has to know of it.
struct fault_steps {
  std::chrono::milliseconds delay{0};
  bool held = false;                   ///< until thaw()
  bool ends_session = false;           ///< the one that it names
  unsigned applications = 1;           ///< how often it reaches Consul
  std::optional<api_reply> instead{};  ///< of Consul's reply
  bool resets_index = false;
  std::size_t refuses = 0;          ///< so many connections after it
  std::vector<unsigned> interim{};  ///< statuses of replies before the reply
  enum class delivery {
    whole,
    half,          ///< of its bytes, and then the connection's end
    byte_by_byte,  ///< `between` apart
    none,          ///< a reset
  } reply = delivery::whole;
  std::chrono::milliseconds between{0};
  std::optional<std::chrono::milliseconds> copy_after{};  ///< the reply: it reaches Consul once more
  bool operator==(const fault_steps&) const = default;
};

fault_steps steps_of(const fault& what);

/// X-Consul-Index becomes 1.
void reset_index(api_reply& reply);

}  // namespace holdfast::testing::detail
