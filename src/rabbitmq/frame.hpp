// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>

// The frames of AMQP 0-9-1. A frame has a type (1 byte), a channel (2 bytes), the size of its payload (4 bytes), the
// payload, and an end byte. Numbers are big-endian.
namespace holdfast::rabbitmq::detail {

enum class frame_type : std::uint8_t { method = 1, header = 2, body = 3, heartbeat = 8 };

constexpr std::size_t frame_overhead = 8;         ///< the bytes of a frame that are not payload
constexpr std::uint32_t frame_max_least = 4096;   ///< before tune-ok; and the least that a peer may offer
constexpr std::uint16_t channel_max_least = 3;    ///< the least that a peer may offer
constexpr std::size_t content_header_least = 14;  ///< class, weight, size of the body, and flags of the properties

/// The first bytes that a client sends: it speaks AMQP 0-9-1.
constexpr std::string_view protocol_header{"AMQP\0\0\x09\x01", 8};

struct frame {
  frame_type type = frame_type::method;
  std::uint16_t channel = 0;
  std::uint32_t payload_bytes = 0;  ///< the size of the payload as sent
  std::string_view payload{};       ///< the front of the payload that `frame_limits` keeps

  bool operator==(const frame&) const = default;
};

struct frame_limits {
  /// The largest frame, with its overhead. A larger one is refused when its size is known.
  std::uint32_t frame_bytes_max = frame_max_least;
  /// How many bytes of a content header are kept. A client needs no more than the size of the body.
  std::size_t header_bytes_kept = content_header_least;
  std::size_t body_bytes_kept = 0;  ///< how many bytes of each body frame are kept
};

/// Reads the frames of a stream, which may arrive in pieces of any size. Its memory is what a peer has sent of one
/// frame, as far as the limits keep it.
class HOLDFAST_INTERNAL frame_reader {
public:
  explicit frame_reader(frame_limits limits = {}) : limits_(limits) {}

  /// Sets the limits for the next frames: after tune-ok the negotiated ones. Must not be called within a frame.
  void set_limits(frame_limits limits) noexcept { limits_ = limits; }

  /// Reads from `bytes` up to the end of one frame, and removes what it has read. `out` is empty if the frame is not
  /// yet complete. The payload of `out` is valid until the next call. Fails with error::malformed_reply if the stream
  /// is not AMQP or exceeds a limit; `cause` then says why, and the reader must not be used any more.
  error_code read(std::string_view& bytes, std::optional<frame>& out);

  /// The reason of a failure, for diagnostics. It has nothing of what the peer has sent.
  std::string_view cause() const noexcept { return cause_; }

private:
  static constexpr std::size_t head_bytes = 7;

  error_code fail(std::string_view cause) noexcept;
  bool take_head(std::string_view& bytes);
  error_code check_type() noexcept;
  error_code check_head() noexcept;
  void take_payload(std::string_view& bytes);
  std::size_t kept_max() const noexcept;

  frame_limits limits_;
  std::string head_{};
  std::string payload_{};
  std::uint32_t payload_seen_ = 0;
  frame current_{};
  std::string_view cause_{};
};

void append_frame(std::string& out, frame_type type, std::uint16_t channel, std::string_view payload);
HOLDFAST_INTERNAL void append_heartbeat(std::string& out);

/// Appends the body of a message, in as many frames as `frame_bytes_max` demands. An empty body has no frame.
void append_body(std::string& out, std::uint16_t channel, std::string_view body, std::uint32_t frame_bytes_max);

}  // namespace holdfast::rabbitmq::detail
