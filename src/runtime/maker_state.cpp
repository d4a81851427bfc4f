// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/maker_state.hpp>

#include "runtime/run_directory.hpp"

namespace holdfast {

maker_state maker_of(const std::string& session, const std::optional<std::string>& path) {
  using state = runtime::run_directory::state;
  const runtime::run_directory* const directory =
      runtime::run_directory::open(path ? *path : runtime::run_directory::usual_path());
  const state seen = directory ? directory->look(session).its : state::unknown;
  return seen == state::gone ? maker_state::gone : seen == state::lives ? maker_state::lives : maker_state::unknown;
}

}  // namespace holdfast
