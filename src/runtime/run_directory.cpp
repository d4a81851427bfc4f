// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/run_directory.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "lifetime/per_process.hpp"

namespace holdfast::runtime {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t session_max = 64;
/// Files that were seen unlocked are removed after this time. The TTL has ended such a session long before, unless the
/// TTL is longer. Then the TTL decides.
constexpr auto keep_gone = 3600s;
constexpr auto keep_unnamed = 60s;
constexpr std::string_view unnamed = ".new-";

/// The session in the first line, and the key of its lock behind it.
std::string content_of(const std::string& session, const std::string& lock_key) { return session + '\n' + lock_key; }

std::optional<std::string> lock_key_in(std::string content, const std::string& session) {
  if (!content.starts_with(session + '\n')) return {};
  return content.erase(0, session.size() + 1);
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace

run_directory::run_directory(std::string path, open_file directory)
    : path_(std::move(path)), directory_(std::make_shared<const open_file>(std::move(directory))) {}

run_directory* run_directory::open(std::string path) {
  struct all {
    std::mutex mutex{};
    std::map<std::string, std::unique_ptr<run_directory>> directories{};
  };
  static constinit lifetime::per_process<all> all_of_process;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (path.empty()) return nullptr;
  path = std::filesystem::absolute(path).string();  // the program may change its working directory
  all& its = *all_of_process;
  const std::lock_guard lock(its.mutex);
  std::unique_ptr<run_directory>& at = its.directories[path];
  if (at) return at.get();
  open_file directory = platform::open_directory(path);
  if (directory.get() < 0) return nullptr;
  at.reset(new run_directory(path, std::move(directory)));
  return at.get();
}

/// The directory that has the path now. Somebody may have removed the one before, and made another. If there is none
/// now, or if it cannot be used, this is the one before.
std::shared_ptr<const open_file> run_directory::directory() const {
  const std::lock_guard lock(mutex_);
  if (platform::is_at(*directory_, path_)) return directory_;
  open_file other = platform::open_directory(path_);
  if (other.get() >= 0) directory_ = std::make_shared<const open_file>(std::move(other));
  return directory_;
}

std::string run_directory::usual_path() {
  if (std::getenv("HOLDFAST_RUN_DIRECTORY")) return variable("HOLDFAST_RUN_DIRECTORY");
  std::string of_the_host = "/run/holdfast";
  if (is_directory(of_the_host)) return of_the_host;
  const std::string of_the_user = variable("XDG_RUNTIME_DIR");
  if (of_the_user.empty() || !is_directory(of_the_user)) return {};
  const std::string path = of_the_user + "/holdfast";
  platform::make_private_directory(path);
  return is_directory(path) ? path : std::string();
}

bool run_directory::is_session(std::string_view name) {
  const auto is_part = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-'; };
  return !name.empty() && name.size() <= session_max && std::all_of(name.begin(), name.end(), is_part);
}

run_directory::made_file run_directory::make(const std::string& session, const std::string& lock_key, int& error) {
  error = EINVAL;
  if (!is_session(session)) return {open_file(-1)};
  auto place = directory();
  open_file file = platform::make_locked(*place, std::string(unnamed), session, content_of(session, lock_key), error);
  if (error != 0) return {open_file(-1)};
  return {std::move(file), std::move(place)};
}

bool run_directory::remove(const std::string& session, const made_file& its) {
  platform::remove(*its.place, session);
  return !platform::has_name(its.file);
}

void run_directory::remove_gone(const std::string& session) {
  const auto place = directory();
  finding found;
  const open_file file = look(*place, session, found);
  if (found.its == state::gone) platform::remove(*place, session);
}

run_directory::finding run_directory::look(const std::string& session) const {
  finding found;
  look(*directory(), session, found);
  return found;
}

/// Tells what the file proves. Returns its descriptor if the maker is gone.
open_file run_directory::look(const open_file& directory, const std::string& name, finding& found) {
  using seen = platform::lock_finding::state;
  found = {};
  if (!is_session(name)) return open_file(-1);
  platform::lock_finding file = platform::look(directory, name);
  if (file.its == seen::unclear) found.its = state::unclear;
  if (file.its == seen::locked) found.its = state::lives;
  if (file.its != seen::unlocked) return open_file(-1);
  std::optional<std::string> lock_key = lock_key_in(std::move(file.content), name);
  if (!lock_key) return open_file(-1);
  found = {state::gone, *std::move(lock_key)};
  return std::move(file.file);
}

run_directory::all_dead run_directory::all_gone() {
  all_dead result;
  const auto place = directory();
  std::optional<std::vector<std::string>> names = platform::names_in(*place);
  result.is_complete = names.has_value();
  if (!names) return result;
  for (std::string& name : *names) {
    if (name.starts_with(unnamed)) {
      platform::remove_unnamed(*place, name, keep_unnamed);
      continue;
    }
    finding found;
    const open_file file = look(*place, name, found);
    result.is_complete = result.is_complete && found.its != state::unclear;
    if (found.its != state::gone) continue;
    platform::remove_unlocked(*place, name, file, keep_gone);
    result.makers.push_back({std::move(name), std::move(found.lock_key)});
  }
  return result;
}

}  // namespace holdfast::runtime
