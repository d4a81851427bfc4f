// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>
#include <vector>

namespace holdfast::test {

namespace asio = boost::asio;

/// An address that answers nothing, not even a refusal. Its queue of new connections is full, so the kernel drops every
/// further one.
class black_hole {
public:
  explicit black_hole(const asio::any_io_executor& ex) : acceptor_(ex, asio::ip::tcp::v4()) {
    acceptor_.bind({asio::ip::address_v4::loopback(), 0});
    acceptor_.listen(0);
    for (int i = 0; i < 4; ++i) {
      asio::ip::tcp::socket& filler = fillers_.emplace_back(ex, asio::ip::tcp::v4());
      filler.async_connect(endpoint(), [](boost::system::error_code) {});
    }
  }
  asio::ip::tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

private:
  asio::ip::tcp::acceptor acceptor_;
  std::vector<asio::ip::tcp::socket> fillers_;
};

}  // namespace holdfast::test
