// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <utility>

namespace holdfast::runtime {

/// Calls `by->ask(question)` with a question of `store.hpp`, and completes with the answer. `ask` and `answer` are
/// named variables because of a compiler bug: see doc/reference/gcc12.md.
template <class Answer, class Asker, class Question>
boost::asio::awaitable<Answer> answer_of(std::shared_ptr<Asker> by, Question question) {
  namespace asio = boost::asio;
  auto ask = [by, &question](auto&& handler) {
    asio::any_completion_handler<void(Answer)>(std::forward<decltype(handler)>(handler)).swap(question.answered);
    by->ask(std::move(question));
  };
  auto answer = asio::async_initiate<const asio::use_awaitable_t<>, void(Answer)>(std::move(ask), asio::use_awaitable);
  co_return co_await std::move(answer);
}

}  // namespace holdfast::runtime
