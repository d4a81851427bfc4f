// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <holdfast/holdfast.hpp>
#include <holdfast/maker_state.hpp>
#include <holdfast/testing/server.hpp>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "support/async.hpp"
#include "support/maker_process.hpp"

// The files in the run directory, which show that the maker of a session is gone. The makers are real processes.

using namespace holdfast::test;
using holdfast::runtime::session_files;

BOOST_FIXTURE_TEST_SUITE(maker_files, directory_story)

BOOST_AUTO_TEST_CASE(a_session_has_a_locked_file_until_it_ends) {
  BOOST_TEST(files.made(session) == 0);
  BOOST_TEST(text_of(session) == session + "\n" + lock_key);
  BOOST_TEST((look(session) == state::lives));
  BOOST_TEST((::fcntl(files.descriptor(session), F_GETFD) & FD_CLOEXEC) != 0);
  BOOST_TEST(all_gone().empty());
  files.ended(session);
  BOOST_TEST(!exists(session));
  BOOST_TEST(files.descriptor(session) == -1);
  BOOST_TEST((look(session) == state::unknown));
}

BOOST_AUTO_TEST_CASE(a_maker_that_is_killed_is_gone_and_its_file_goes_with_its_slots) {
  child maker([&] { files.made(session); });
  BOOST_TEST((look(session) == state::lives));
  maker.kill();
  BOOST_TEST((look(session) == state::gone));
  BOOST_TEST(all_gone() == std::set{session});
  files.ended(session);
  BOOST_TEST(!exists(session));
}

BOOST_AUTO_TEST_CASE(operators_see_what_the_file_shows) {
  using holdfast::maker_of;
  using holdfast::maker_state;
  child maker([&] { files.made(session); });
  BOOST_TEST((maker_of(session, folder.path()) == maker_state::lives));
  maker.kill();
  BOOST_TEST((maker_of(session, folder.path()) == maker_state::gone));
  BOOST_TEST((maker_of(another, folder.path()) == maker_state::unknown));
  BOOST_TEST((maker_of(session, "") == maker_state::unknown));
  BOOST_TEST((maker_of(session) == maker_state::unknown));
}

BOOST_AUTO_TEST_CASE(a_maker_that_is_stopped_lives) {
  child maker([&] { files.made(session); });
  maker.signal(SIGSTOP);
  BOOST_REQUIRE(::waitpid(maker.pid(), nullptr, WUNTRACED) == maker.pid());
  BOOST_TEST((look(session) == state::lives));
}

/// Under a sanitizer a dump would be far too large.
BOOST_AUTO_TEST_CASE(a_maker_lives_until_its_core_dump_is_written,
                     *boost::unit_test::precondition([](auto) { return !is_slow_build(); })) {
  const auto dumped = [this] {
    std::uintmax_t size = 0;
    for (const auto& each : std::filesystem::directory_iterator(folder.path()))
      if (each.path().filename().string().starts_with("core")) size += each.file_size();
    return size;
  };
  child maker([&] {
    const rlimit all{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_CORE, &all);
    if (::chdir(folder.path().c_str()) != 0) ::_exit(1);
    ::signal(SIGABRT, SIG_DFL);  // Boost.Test has a handler
    static volatile char* const much = new char[std::size_t{128} << 20];
    for (std::size_t at = 0; at < std::size_t{128} << 20; at += 4096) much[at] = 1;
    files.made(session);
  });
  maker.signal(SIGABRT);
  while (look(session) != state::gone) ::usleep(100);
  const std::uintmax_t when_gone = dumped();
  const int status = maker.wait();
  if (!WCOREDUMP(status)) BOOST_TEST_MESSAGE("this machine writes no core dumps");
  BOOST_TEST(when_gone == dumped());
}

BOOST_AUTO_TEST_CASE(a_maker_lives_as_long_as_a_child_that_has_inherited_the_file) {
  std::array<int, 2> heir{};
  BOOST_REQUIRE(::pipe(heir.data()) == 0);
  child maker([&] {
    files.made(session);
    const pid_t its = ::fork();
    if (its != 0) [[maybe_unused]]
      const auto size = ::write(heir[1], &its, sizeof its);
  });
  pid_t its = -1;
  BOOST_REQUIRE(::read(heir[0], &its, sizeof its) == sizeof its);
  maker.kill();
  BOOST_TEST((look(session) == state::lives));
  ::kill(its, SIGKILL);
  while (::kill(its, 0) == 0 && look(session) != state::gone) ::usleep(1000);  // its new parent waits for it
  BOOST_TEST((look(session) == state::gone));
  ::close(heir[0]);
  ::close(heir[1]);
}

BOOST_AUTO_TEST_CASE(an_end_of_another_process_does_not_take_a_living_file_away) {
  child maker([&] { files.made(session); });
  files.ended(session);
  BOOST_TEST((look(session) == state::lives));
}

BOOST_AUTO_TEST_CASE(a_file_that_others_may_write_to_proves_nothing) {
  leave();
  ::chmod(path_of(session).c_str(), 0664);
  BOOST_TEST((look(session) == state::unknown));
  ::chmod(path_of(session).c_str(), 0646);
  BOOST_TEST((look(session) == state::unknown));
  ::chmod(path_of(session).c_str(), 0644);
  BOOST_TEST((look(session) == state::gone));
}

BOOST_AUTO_TEST_CASE(a_forged_file_proves_nothing) {
  leave();
  std::filesystem::rename(path_of(session), path_of(another));  // the file of one session for another's
  BOOST_TEST((look(another) == state::unknown));
  std::filesystem::create_symlink(path_of(another), path_of(session));
  BOOST_TEST((look(session) == state::unknown));
  std::filesystem::remove(path_of(session));
  std::filesystem::create_directory(path_of(session));
  BOOST_TEST((look(session) == state::unknown));
  std::filesystem::remove(path_of(session));
  std::filesystem::rename(path_of(another), path_of(session));
  std::filesystem::create_hard_link(path_of(session), path_of("copy"));
  BOOST_TEST((look(session) == state::unknown));
  std::filesystem::remove(path_of("copy"));
  BOOST_TEST((look(session) == state::gone));
}

BOOST_AUTO_TEST_CASE(another_users_file_proves_nothing) {
  leave();
  const uid_t nobody = 65534;
  if (::chown(path_of(session).c_str(), nobody, nobody) != 0) {
    // Only root may do that, and in a user namespace only with users that it has (EINVAL).
    BOOST_TEST((::geteuid() != 0 || errno == EINVAL));
    return;
  }
  BOOST_TEST((look(session) == state::unknown));
}

BOOST_AUTO_TEST_CASE(roots_file_proves_something_to_every_user) {
  leave();
  struct stat its {};
  BOOST_REQUIRE(::stat(path_of(session).c_str(), &its) == 0);
  BOOST_TEST(its.st_mode % 01000 == 0644u);  // everybody may read it
}

BOOST_AUTO_TEST_CASE(a_directory_that_is_not_local_is_not_used) {
  BOOST_TEST(run_directory::open("/proc/self/fd") == nullptr);
  BOOST_TEST(run_directory::open(folder.path() + "/none") == nullptr);
  BOOST_TEST(run_directory::open("") == nullptr);
  folder.write("file", "");
  BOOST_TEST(run_directory::open(path_of("file")) == nullptr);
}

BOOST_AUTO_TEST_CASE(only_the_id_of_a_session_names_a_file) {
  for (const char* const name : {"", "../0b9e", "0b9e/1c6a", "ABC", ".new-1-1", "x"})
    BOOST_TEST(files.made(name) == EINVAL, name);
  BOOST_TEST(files.made(std::string(65, 'a')) == EINVAL);
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

/// Processes of several containers may have the same process id.
BOOST_AUTO_TEST_CASE(a_name_that_is_taken_does_no_harm) {
  for (int i = 0; i != 60; ++i) folder.write(".new-" + std::to_string(::getpid()) + '-' + std::to_string(i), "");
  BOOST_TEST(files.made(session) == 0);
  BOOST_TEST((look(session) == state::lives));
  files.ended(session);
}

BOOST_AUTO_TEST_CASE(a_file_without_its_name_proves_nothing_and_is_removed_when_it_is_old) {
  folder.write(".new-1-1", session);
  BOOST_TEST(all_gone().empty());
  BOOST_TEST(exists(".new-1-1"));
  make_older(".new-1-1", 61);
  all_gone();
  BOOST_TEST(!exists(".new-1-1"));
}

BOOST_AUTO_TEST_CASE(a_file_that_nobody_needs_is_removed_an_hour_after_it_was_found) {
  leave();
  make_older(session, 100'000);  // its maker has lived for long
  BOOST_TEST(all_gone() == std::set{session});
  BOOST_TEST(all_gone() == std::set{session});
  make_older(session, 3'500);
  BOOST_TEST(all_gone() == std::set{session});
  make_older(session, 3'700);
  all_gone();
  BOOST_TEST(!exists(session));
}

/// It is not a proof that the maker is gone, because another user of the process may have looked too early.
BOOST_AUTO_TEST_CASE(files_that_nobody_uses_any_more_are_no_proof) {
  {
    session_files of_a_lock(&directory, lock_key);
    of_a_lock.made(session);
    of_a_lock.made(another);
  }
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
  files.made(session);
  files.remove_all();
  BOOST_TEST(files.made(another) == 0);  // a late answer to a request
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
  BOOST_TEST(files.descriptor(session) == -1);
}

BOOST_AUTO_TEST_CASE(a_file_that_keeps_its_name_stays_locked) {
  const std::string moved = folder.path() + "/moved";
  std::filesystem::create_directory(moved);
  run_directory& inner = *run_directory::open(moved);
  child maker([&] {
    auto* const its = new session_files(&inner, lock_key);
    its->made(session);
    if (::chmod(moved.c_str(), 0555) != 0 || ::setuid(65534) != 0) return;
    delete its;  // it may not remove the file
  });
  BOOST_TEST((inner.look(session).its == state::lives));
  ::chmod(moved.c_str(), 0755);
}

BOOST_AUTO_TEST_CASE(a_directory_that_was_removed_and_made_again_is_used) {
  BOOST_TEST(files.made(session) == 0);
  std::filesystem::remove_all(folder.path());
  BOOST_TEST(files.made(another) == ENOENT);
  std::filesystem::create_directory(folder.path());
  BOOST_TEST(files.made(another) == 0);
  BOOST_TEST(exists(another));
  BOOST_TEST((look(another) == state::lives));
  leave("0b9e");
  BOOST_TEST(all_gone() == std::set<std::string>{"0b9e"});
  files.ended(session);
  files.ended("0b9e");
}

/// The file is removed from the directory in which it was made. Somebody else may still see that one.
BOOST_AUTO_TEST_CASE(a_directory_that_was_replaced_keeps_no_unlocked_file) {
  BOOST_TEST(files.made(session) == 0);
  const std::string moved = folder.path() + ".moved";
  std::filesystem::rename(folder.path(), moved);
  std::filesystem::create_directory(folder.path());
  BOOST_TEST(files.made(another) == 0);
  files.remove_all();
  BOOST_TEST(!std::filesystem::exists(moved + '/' + session));
  BOOST_TEST(!exists(another));
  std::filesystem::remove_all(moved);
}

BOOST_AUTO_TEST_CASE(a_relative_path_is_that_of_the_time_when_it_was_given) {
  const std::filesystem::path path(folder.path());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(path.parent_path());
  const run_directory* const same = run_directory::open(path.filename().string() + '/');
  std::filesystem::current_path(before);
  BOOST_TEST(same == &directory);
}

BOOST_AUTO_TEST_CASE(a_process_without_descriptors_cannot_look) {
  leave();
  const few_descriptors none(3);
  BOOST_TEST((look(session) == state::unclear));
  BOOST_TEST(!directory.all_gone().is_complete);
}

BOOST_AUTO_TEST_CASE(a_context_that_is_destroyed_leaves_no_file) {
  namespace asio = boost::asio;
  holdfast::testing::server consul;
  auto io = std::make_unique<asio::io_context>(1);
  holdfast::consul::client client(*io, consul.client_config());
  holdfast::semaphore_options options;
  options.prefix = "service/db";
  options.limit = 1;
  options.tuning.run_directory = folder.path();
  holdfast::semaphore sem(client, options);
  holdfast::slot held;
  sem.acquire([&](const holdfast::error_code&, holdfast::slot its) {
    held = std::move(its);
    io->stop();
  });
  io->run();
  BOOST_REQUIRE(held.held());
  BOOST_REQUIRE(held.maker_files().size() == 1u);
  const int file = held.maker_files().front();
  io.reset();
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
  BOOST_TEST(::fcntl(file, F_GETFD) == -1);
}

BOOST_AUTO_TEST_CASE(the_environment_names_the_directory) {
  const char* const before = std::getenv("HOLDFAST_RUN_DIRECTORY");
  const std::string kept = before ? before : "";
  ::setenv("HOLDFAST_RUN_DIRECTORY", folder.path().c_str(), 1);
  BOOST_TEST(run_directory::usual_path() == folder.path());
  ::setenv("HOLDFAST_RUN_DIRECTORY", "", 1);
  BOOST_TEST(run_directory::usual_path().empty());
  ::unsetenv("HOLDFAST_RUN_DIRECTORY");
  ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
  const std::string its = run_directory::usual_path();
  BOOST_TEST((its == "/run/holdfast" || its == folder.path() + "/holdfast"));
  ::unsetenv("XDG_RUNTIME_DIR");
  ::setenv("HOLDFAST_RUN_DIRECTORY", kept.c_str(), 1);
}

BOOST_AUTO_TEST_SUITE_END()
