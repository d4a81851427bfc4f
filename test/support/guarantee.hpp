// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

namespace holdfast::test {

/// The guarantees of holdfast, with the numbers of doc/explanation/guarantees.md, which describes each with its
/// exceptions.
enum class guarantee {
  limit = 1,
  record = 2,
  backing = 3,
  tokens = 4,
  progress = 5,
  order = 6,
  cost = 7,
  answers = 8,
  losses = 9,
  leaks = 10,
  orders = 11,
  elections = 12,
  numbers = 13,
  guards = 14,
};

}  // namespace holdfast::test
