// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/frame.hpp"

#include <algorithm>
#include <limits>

#include "rabbitmq/big_endian.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

constexpr char frame_end = '\xCE';
constexpr std::size_t method_least = 4;  // class and method
constexpr std::size_t capacity_kept = 4096;

bool is_known(frame_type type) noexcept {
  switch (type) {
    case frame_type::method:
    case frame_type::header:
    case frame_type::body:
    case frame_type::heartbeat:
      return true;
  }
  return false;
}

std::uint32_t payload_least(frame_type type) noexcept {
  switch (type) {
    case frame_type::method:
      return method_least;
    case frame_type::header:
      return content_header_least;
    case frame_type::body:
      return 1;  // an empty body has no frame
    case frame_type::heartbeat:
      return 0;
  }
  return 0;
}

}  // namespace

error_code frame_reader::fail(std::string_view cause) noexcept {
  cause_ = cause;
  return error::malformed_reply;
}

// Returns true when the type, the channel and the size are there.
bool frame_reader::take_head(std::string_view& bytes) {
  const std::size_t taken = std::min(head_bytes - head_.size(), bytes.size());
  head_ += bytes.substr(0, taken);
  bytes.remove_prefix(taken);
  return head_.size() == head_bytes;
}

// The first byte is checked alone, because a peer that does not speak AMQP may send less than seven.
error_code frame_reader::check_type() noexcept {
  if (head_.empty() || is_known(static_cast<frame_type>(head_.front()))) return {};
  return fail("the stream has a frame of an unknown type: the peer does not speak AMQP 0-9-1");
}

error_code frame_reader::check_head() noexcept {
  current_ = {static_cast<frame_type>(head_.front()),
              big_endian<std::uint16_t>(head_, 1),
              big_endian<std::uint32_t>(head_, 3),
              {}};
  if (current_.payload_bytes > limits_.frame_bytes_max - frame_overhead) return fail("a frame exceeds the limit");
  if (current_.payload_bytes < payload_least(current_.type)) return fail("a frame is too small for its type");
  if (current_.type == frame_type::heartbeat) {
    if (current_.payload_bytes != 0 || current_.channel != 0) return fail("a heartbeat has a payload or a channel");
  } else if (current_.type != frame_type::method && current_.channel == 0) {
    return fail("a message has come on channel 0");
  }
  payload_seen_ = 0;
  payload_.clear();
  if (payload_.capacity() > capacity_kept) payload_ = std::string();
  return {};
}

std::size_t frame_reader::kept_max() const noexcept {
  switch (current_.type) {
    case frame_type::header:
      return limits_.header_bytes_kept;
    case frame_type::body:
      return limits_.body_bytes_kept;
    case frame_type::method:
    case frame_type::heartbeat:
      break;
  }
  return std::numeric_limits<std::size_t>::max();  // the limit of a frame was checked before
}

void frame_reader::take_payload(std::string_view& bytes) {
  const std::string_view taken = bytes.substr(0, current_.payload_bytes - payload_seen_);
  payload_ += taken.substr(0, kept_max() - std::min(kept_max(), payload_.size()));
  payload_seen_ += static_cast<std::uint32_t>(taken.size());
  bytes.remove_prefix(taken.size());
}

error_code frame_reader::read(std::string_view& bytes, std::optional<frame>& out) {
  out.reset();
  if (head_.size() < head_bytes) {
    const bool is_whole = take_head(bytes);
    if (const error_code ec = check_type()) return ec;
    if (!is_whole) return {};
    if (const error_code ec = check_head()) return ec;
  }
  take_payload(bytes);
  if (bytes.empty()) return {};  // the payload or the end byte is still missing
  if (bytes.front() != frame_end) return fail("a frame does not end with its end byte");
  bytes.remove_prefix(1);
  head_.clear();
  current_.payload = payload_;
  out = current_;
  return {};
}

void append_frame(std::string& out, frame_type type, std::uint16_t channel, std::string_view payload) {
  append_big_endian(out, static_cast<std::uint8_t>(type));
  append_big_endian(out, channel);
  append_big_endian(out, static_cast<std::uint32_t>(payload.size()));
  out += payload;
  out += frame_end;
}

void append_heartbeat(std::string& out) { append_frame(out, frame_type::heartbeat, 0, {}); }

void append_body(std::string& out, std::uint16_t channel, std::string_view body, std::uint32_t frame_bytes_max) {
  while (!body.empty()) {
    const std::string_view part = body.substr(0, frame_bytes_max - frame_overhead);
    append_frame(out, frame_type::body, channel, part);
    body.remove_prefix(part.size());
  }
}

}  // namespace holdfast::rabbitmq::detail
