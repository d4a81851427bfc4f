// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// One side of an AMQP connection: bytes in any pieces, the frames that they form, and the methods and messages in them.
//
// The input has a byte that selects the decoder, a byte for the sizes of the pieces, a byte for how much of a body is
// kept, and the bytes of the stream.

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fuzz.hpp"
#include "rabbitmq/frame.hpp"
#include "rabbitmq/method.hpp"

using namespace holdfast;
using namespace holdfast::rabbitmq::detail;
using holdfast::fuzz::require;

namespace {

// Less than the limit of a frame by this much, so that a table may become larger when it is written again.
constexpr std::size_t payload_without_doubt = 3500;
constexpr std::uint32_t bytes_max_after_tune = 16 * 1024;

struct read_frame {
  frame head{};
  std::string payload{};

  bool operator==(const read_frame&) const = default;
};

struct outcome {
  error_code ec{};
  std::string cause{};
  std::vector<read_frame> frames{};

  bool operator==(const outcome&) const = default;
};

outcome read(std::string_view stream, frame_limits limits, fuzz::pieces sizes) {
  frame_reader reader(limits);
  outcome result;
  while (!stream.empty() && !result.ec) {
    std::string_view bytes = stream.substr(0, sizes.next(stream.size()));
    stream.remove_prefix(bytes.size());
    while (!bytes.empty() && !result.ec) {
      const std::size_t before = bytes.size();
      std::optional<frame> found;
      result.ec = reader.read(bytes, found);
      require(result.ec || bytes.size() < before, "each call takes some bytes");
      if (!found) continue;
      read_frame& kept = result.frames.emplace_back(read_frame{*found, std::string(found->payload)});
      kept.head.payload = {};
    }
  }
  result.cause = reader.cause();
  return result;
}

void check_frames(const outcome& all, frame_limits limits, std::string_view stream) {
  require(!all.ec || all.ec == error::malformed_reply, "a stream is refused for what it is");
  require(all.ec.failed() == !all.cause.empty(), "a refusal has a cause");
  std::string written;
  for (const read_frame& each : all.frames) {
    require(each.payload.size() == each.head.payload_bytes, "all is kept that is asked for");
    require(each.payload.size() + frame_overhead <= limits.frame_bytes_max, "a frame keeps its limit");
    append_frame(written, each.head.type, each.head.channel, each.payload);
  }
  require(stream.starts_with(written), "frames survive being written");
}

void forget_others(method& what) {
  if (auto* const declare = std::get_if<queue_declare>(&what)) declare->arguments.others.clear();
}

void check_method(const frame& from, decoder decoder) {
  method decoded;
  std::string_view cause;
  if (const error_code ec = decode_method(from, decoder, decoded, cause)) {
    require(ec == error::malformed_reply && !cause.empty(), "a method is refused for what it is");
    return;
  }
  require(decoder != decoder::client || !std::holds_alternative<connection_start>(decoded), "no table after tune-ok");
  forget_others(decoded);
  std::string bytes;
  if (const error_code ec = append_method(bytes, from.channel, decoded)) {
    require(ec == error::bad_request && from.payload.size() > payload_without_doubt, "a method can be written again");
    return;
  }
  frame again = from;
  again.payload = std::string_view(bytes).substr(7, bytes.size() - frame_overhead);
  again.payload_bytes = static_cast<std::uint32_t>(again.payload.size());
  method same;
  require(!decode_method(again, decoder, same, cause) && same == decoded, "a method survives being written");
}

void check_properties(const frame& from) {
  message_properties properties;
  std::string_view cause;
  if (decode_properties(from, properties, cause)) {
    require(!cause.empty(), "a refusal has a cause");
    return;
  }
  std::string bytes;
  require(!append_content(bytes, 1, properties, {}, frame_max_least), "properties can be written again");
  const auto payload = std::string_view(bytes).substr(7, bytes.size() - frame_overhead);
  message_properties same;
  const frame again{frame_type::header, 1, static_cast<std::uint32_t>(payload.size()), payload};
  require(!decode_properties(again, same, cause) && same == properties, "properties survive being written");
}

void check_content(content_reader& reader, const frame& from, std::size_t kept_max) {
  std::string_view cause;
  if (reader.is_complete()) reader = content_reader(kept_max);
  if (reader.take(from, cause)) {
    require(!cause.empty(), "a refusal has a cause");
    reader = content_reader(kept_max);
  }
  require(reader.body().size() <= kept_max, "no more of a body is kept than asked for");
  require(reader.body().size() <= reader.body_bytes(), "a body is no larger than announced");
  require(!reader.is_complete() || reader.body().size() == std::min<std::uint64_t>(kept_max, reader.body_bytes()),
          "of a complete message all is there that was asked for");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  constexpr decoder decoders[] = {decoder::client_before_tune_ok, decoder::client, decoder::server};
  const decoder decoder = decoders[in.byte() % std::size(decoders)];
  const std::uint8_t sizes = in.byte();
  const std::size_t kept_max = in.byte();
  const std::string_view stream = in.rest();

  frame_limits limits;
  limits.frame_bytes_max = decoder == decoder::client_before_tune_ok ? frame_max_least : bytes_max_after_tune;
  limits.header_bytes_kept = limits.body_bytes_kept = limits.frame_bytes_max;
  const outcome all = read(stream, limits, fuzz::pieces(0));
  require(read(stream, limits, fuzz::pieces(1)) == all, "pieces do not decide what is read");
  require(read(stream, limits, fuzz::pieces(sizes)) == all, "pieces do not decide what is read");
  check_frames(all, limits, stream);

  limits.body_bytes_kept = kept_max;
  const outcome less = read(stream, limits, fuzz::pieces(sizes));
  require(less.ec == all.ec && less.frames.size() == all.frames.size(), "what is kept does not decide what is read");

  content_reader content(kept_max);
  for (const read_frame& each : less.frames) {
    frame from = each.head;
    from.payload = each.payload;
    check_method(from, decoder);
    check_properties(from);
    check_content(content, from, kept_max);
  }
  return 0;
}
