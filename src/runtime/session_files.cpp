// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/session_files.hpp"

#include <iterator>
#include <utility>

namespace holdfast::runtime {

session_files::~session_files() {
  remove_all();
  for (auto& [session, each] : files_) each.file.release();  // it has its name, so it must not be closed
}

int session_files::made(const std::string& session) {
  const std::lock_guard lock(mutex_);
  if (!directory_ || is_over_ || files_.contains(session)) return 0;
  int error = 0;
  run_directory::made_file file = directory_->make(session, lock_key_, error);
  if (error == 0) files_.emplace(session, std::move(file));
  return error;
}

void session_files::ended(const std::string& session) {
  if (!directory_) return;
  const std::lock_guard lock(mutex_);
  const auto at = files_.find(session);
  if (at == files_.end())
    directory_->remove_gone(session);
  else
    remove(at);
}

void session_files::remove_all() {
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  for (auto at = files_.begin(); at != files_.end();) at = remove(at);
}

int session_files::descriptor(const std::string& session) {
  const std::lock_guard lock(mutex_);
  const auto at = files_.find(session);
  return at == files_.end() ? -1 : at->second.file.get();
}

session_files::file_map::iterator session_files::remove(file_map::iterator at) {
  return run_directory::remove(at->first, at->second) ? files_.erase(at) : std::next(at);
}

}  // namespace holdfast::runtime
