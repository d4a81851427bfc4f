// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "lifetime/completion.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/system_executor.hpp>

namespace holdfast::detail {

namespace {

/// The list of the outermost `dropping_later` of this thread. Null without one.
thread_local operation_list* dropped = nullptr;

}  // namespace

dropping_later::dropping_later() noexcept : is_outermost_(dropped == nullptr) {
  if (is_outermost_) dropped = &kept_;
}

dropping_later::~dropping_later() {
  if (!is_outermost_) return;
  while (!kept_.empty()) kept_.pop();  // destroying an operation may add others
  dropped = nullptr;
}

void drop(operation_ptr which) noexcept {
  const dropping_later later;
  dropped->push(std::move(which));
}

void arrival::go_elsewhere(operation_ptr which) {
  const auto to = std::move(which->elsewhere);
  asio::dispatch(asio::bind_executor(std::move(*to), arrival(std::move(which))));
}

void post_to_system(operation_ptr ended) { asio::post(asio::system_executor(), arrival(std::move(ended))); }

void complete_immediately([[maybe_unused]] operation_ptr ended) {
#if BOOST_VERSION >= 108200
  const auto through = std::move(ended->immediate);
  const auto work = std::move(ended->elsewhere);  // the executor is `through->own`, too
  if (through->own)
    asio::dispatch(through->immediate, asio::bind_executor(std::move(through->own), arrival(std::move(ended))));
  else
    through->immediate.execute(arrival(std::move(ended)));
#endif
}

}  // namespace holdfast::detail
