#include "utf8.hpp"

namespace holdfast::consul::detail {

std::pair<char32_t, std::size_t> front_character(std::string_view text) noexcept {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return {};
  char32_t c = lead & (0xff >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    c = c << 6 | (byte(i) & 0x3f);
  }
  constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = c >= 0xd800 && c <= 0xdfff;
  if (c < least[size] || c > 0x10ffff || surrogate) return {};
  return {c, size};
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t size = front_character(text).second;
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace holdfast::consul::detail
