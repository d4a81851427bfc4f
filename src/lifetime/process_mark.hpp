// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <holdfast/detail/export.hpp>

namespace holdfast::lifetime {

/// Names the process in which it was made. A copy of a mark names the same process as the original.
///
/// A child of fork() has copies of all of its parent's objects. The copies are marked by the parent. Such a copy must
/// not send anything, nor touch what the two processes share: sockets, the epoll set, its timer. It must not lock
/// anything either, because another thread of the parent may have held the lock at the moment of the fork.
///
/// The C library runs an at-fork handler, which counts: see platform/fork.hpp. Where there is none, no mark is foreign.
class HOLDFAST_INTERNAL process_mark {
public:
  /// Marks the calling process. The first mark registers the at-fork handler.
  process_mark();

  /// Returns true if the caller is a child of the process that was marked, or descends from such a child. One relaxed
  /// load: no system call.
  bool is_foreign() const noexcept { return forks_ != forks_so_far.load(std::memory_order_relaxed); }

private:
  static std::atomic<unsigned> forks_so_far;  ///< forks from the first process that used the library to this one
  unsigned forks_;
};

}  // namespace holdfast::lifetime
