#include <algorithm>
#include <holdfast/diagnostics.hpp>

namespace holdfast {

std::string diagnostics::to_string() const {
  std::string line = message;
  if (!key.empty()) line += " (key \"" + key + "\")";
  if (limit_conflict) {
    line += " (limit recorded " + std::to_string(limit_conflict->recorded) + ", ours " +
            std::to_string(limit_conflict->ours) + ")";
  }
  if (!server_message.empty()) line += "; Consul said: " + server_message;
  // Keys and server texts may contain anything, and a log line must stay one line.
  std::replace_if(
      line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

}  // namespace holdfast
