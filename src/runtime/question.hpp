#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <utility>

namespace holdfast::runtime {

/// Puts a question of `store.hpp` by `ask(question)` of whom it is given, and completes with the answer. Not a lambda
/// in the expression that awaits it: see doc/reference/gcc12.md.
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
