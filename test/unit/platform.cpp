// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The interfaces of src/platform. `unit` tests the version for Linux, and `unit_portable` the portable one. Some cases
// state what only one of them does, and are skipped with the other.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "net/address.hpp"
#include "platform/clocks.hpp"
#include "platform/file_stamp.hpp"
#include "platform/folder_watch.hpp"
#include "platform/locked_files.hpp"
#include "platform/process_id.hpp"
#include "platform/socket_path.hpp"
#include "platform/sockets.hpp"
#include "platform/version.hpp"
#include "runtime/run_directory.hpp"
#include "runtime/session_files.hpp"
#include "support/platform_probe.hpp"
#include "support/temporary_folder.hpp"

namespace {

namespace ours = holdfast::platform;
namespace asio = boost::asio;
using namespace std::chrono_literals;
using holdfast::runtime::run_directory;

struct is_version {
  ours::version its;
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    return ours::linked_version() == its;
  }
};
const boost::unit_test::precondition only_linux{is_version{ours::version::linux_calls}};
const boost::unit_test::precondition only_portable{is_version{ours::version::portable}};

/// A file with this text and this time, under a new identity.
void write(const std::string& path, const std::string& text, std::filesystem::file_time_type time) {
  std::ofstream(path + ".new") << text;
  std::filesystem::last_write_time(path + ".new", time);
  std::filesystem::rename(path + ".new", path);
}

/// Both ends of a TCP connection over the loopback interface.
struct connected {
  asio::io_context io{1};
  asio::ip::tcp::acceptor acceptor{io, {asio::ip::address_v4::loopback(), 0}};
  ours::stream_socket socket{asio::make_strand(asio::any_io_executor(io.get_executor()))};

  connected() {
    const asio::ip::tcp::endpoint at = acceptor.local_endpoint();
    BOOST_REQUIRE(!ours::open(socket, at.protocol()));
    socket.connect(at);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(platform)

BOOST_AUTO_TEST_CASE(both_clocks_run_as_fast_as_the_steady_clock) {
  const auto steady = std::chrono::steady_clock::now();
  const auto boot = ours::boot_time(), coarse = ours::coarse_time();
  std::this_thread::sleep_for(100ms);
  const auto boot_passed = ours::boot_time() - boot, coarse_passed = ours::coarse_time() - coarse;
  const auto steady_passed = std::chrono::steady_clock::now() - steady;
  BOOST_TEST((boot_passed >= 100ms));
  BOOST_TEST((coarse_passed >= 80ms), "it ticks every few milliseconds");
  BOOST_TEST((boot_passed <= steady_passed));
  BOOST_TEST((coarse_passed <= steady_passed + 20ms));
}

BOOST_AUTO_TEST_CASE(a_stamp_tells_that_a_file_was_written_or_removed) {
  const holdfast::test::temporary_folder folder;
  const std::string path = folder.path() + "/file";
  const ours::file_stamp none(path);
  BOOST_TEST((none == ours::file_stamp()));
  const auto time = std::filesystem::file_time_type::clock::now() - 1h;
  write(path, "one", time);
  const ours::file_stamp first(path);
  BOOST_TEST((first != none));
  BOOST_TEST((first == ours::file_stamp(path)));
  write(path, "three", time);
  BOOST_TEST((ours::file_stamp(path) != first), "another size");
  write(path, "two", time + 1us);
  BOOST_TEST((ours::file_stamp(path) != first), "another time");
  std::filesystem::remove(path);
  BOOST_TEST((ours::file_stamp(path) == none));
}

BOOST_AUTO_TEST_CASE(a_stamp_tells_that_a_file_was_replaced, *only_linux) {
  const holdfast::test::temporary_folder folder;
  const std::string path = folder.path() + "/file";
  const auto time = std::filesystem::file_time_type::clock::now() - 1h;
  write(path, "one", time);
  const ours::file_stamp first(path);
  write(path, "two", time);
  BOOST_TEST((ours::file_stamp(path) != first));
}

BOOST_AUTO_TEST_CASE(a_stamp_is_the_same_for_a_file_of_the_same_size_and_time, *only_portable) {
  const holdfast::test::temporary_folder folder;
  const std::string path = folder.path() + "/file";
  const auto time = std::filesystem::file_time_type::clock::now() - 1h;
  write(path, "one", time);
  const ours::file_stamp first(path);
  write(path, "two", time);
  BOOST_TEST((ours::file_stamp(path) == first));
}

BOOST_AUTO_TEST_CASE(a_process_keeps_its_id) {
  const std::string id = ours::process_id();
  BOOST_TEST(!id.empty());
  BOOST_TEST(id.find_first_not_of("0123456789abcdef") == std::string::npos);
  BOOST_TEST(id == ours::process_id());
}

BOOST_AUTO_TEST_CASE(the_id_is_that_of_the_system, *only_linux) {
  BOOST_TEST(ours::process_id() == holdfast::test::id_of_process());
}

BOOST_AUTO_TEST_CASE(the_id_is_drawn, *only_portable) { BOOST_TEST(ours::process_id().size() == 8u); }

BOOST_AUTO_TEST_CASE(a_path_of_the_greatest_length_is_an_address) {
  const std::size_t most = ours::socket_path_size_max();
  BOOST_TEST(most >= 103u);
  BOOST_TEST(most <= 107u);
  BOOST_TEST(holdfast::net::path_address('/' + std::string(most - 1, 'x')).is_path);
  BOOST_TEST(!holdfast::net::path_address('/' + std::string(most, 'x')).is_path);
}

BOOST_FIXTURE_TEST_CASE(a_connection_sends_keepalive_probes, connected) {
  asio::socket_base::keep_alive on;
  socket.get_option(on);
  BOOST_TEST(!on.value());
  ours::notice_dead_peer(socket);
  socket.get_option(on);
  BOOST_TEST(on.value());
}

BOOST_FIXTURE_TEST_CASE(a_dead_peer_is_noticed_after_eleven_seconds, connected, *only_linux) {
  ours::notice_dead_peer(socket);
  const holdfast::test::probe_times times = holdfast::test::probe_times_of(socket.native_handle());
  BOOST_TEST(times.idle + times.interval * times.count == 11);
  BOOST_TEST(times.unacknowledged_ms == 11'000);
}

BOOST_FIXTURE_TEST_CASE(the_times_of_probes_are_the_systems, connected, *only_portable) {
  const holdfast::test::probe_times before = holdfast::test::probe_times_of(socket.native_handle());
  ours::notice_dead_peer(socket);
  BOOST_TEST((holdfast::test::probe_times_of(socket.native_handle()) == before));
}

BOOST_FIXTURE_TEST_CASE(programs_do_not_inherit_a_connection, connected, *only_linux) {
  BOOST_TEST(!holdfast::test::is_inherited(socket.native_handle()));
}

BOOST_AUTO_TEST_CASE(a_socket_that_cannot_be_opened_has_an_error) {
  asio::io_context io{1};
  ours::stream_socket socket{asio::make_strand(asio::any_io_executor(io.get_executor()))};
  BOOST_TEST(ours::open(socket, asio::generic::stream_protocol(-1, 0)).failed());
  BOOST_TEST(!socket.is_open());
}

// unit.maker_files and unit.maker_watches test these files and this watch on Linux.
BOOST_AUTO_TEST_CASE(no_directory_is_a_run_directory, *only_portable) {
  const holdfast::test::temporary_folder folder;
  BOOST_TEST(run_directory::open(folder.path()) == nullptr);
  holdfast::runtime::session_files files(nullptr, "service/db/.lock");
  BOOST_TEST(files.made("0b9e") == 0);
  BOOST_TEST(files.descriptor("0b9e") == -1);
  files.ended("0b9e");
}

BOOST_AUTO_TEST_CASE(a_locked_file_is_neither_made_nor_found, *only_portable) {
  const holdfast::test::temporary_folder folder;
  const ours::open_file directory = ours::open_directory(folder.path());
  BOOST_TEST(directory.get() == -1);
  int error = 0;
  BOOST_TEST(ours::make_locked(directory, ".new-", "0b9e", "text", error).get() == -1);
  BOOST_TEST(error != 0);
  BOOST_TEST((ours::look(directory, "0b9e").its == ours::lock_finding::state::unknown));
  BOOST_TEST(!ours::names_in(directory).has_value());
  BOOST_TEST(std::filesystem::is_empty(folder.path()));
}

BOOST_AUTO_TEST_CASE(no_folder_is_watched, *only_portable) {
  const holdfast::test::temporary_folder folder;
  BOOST_TEST(ours::folder_watch::make(folder.path()) == nullptr);
}

BOOST_AUTO_TEST_CASE(a_child_of_fork_is_noticed, *only_linux) { BOOST_TEST(holdfast::test::notices_a_fork()); }

BOOST_AUTO_TEST_CASE(a_child_of_fork_is_not_noticed, *only_portable) { BOOST_TEST(!holdfast::test::notices_a_fork()); }

BOOST_AUTO_TEST_SUITE_END()
