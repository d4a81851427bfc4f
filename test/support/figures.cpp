// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/figures.hpp"

#include <boost/json/serialize.hpp>
#include <boost/test/unit_test.hpp>
#include <iostream>

namespace holdfast::test {

void print_figures(const boost::json::object& figures) {
  boost::json::object all{{"test", boost::unit_test::framework::current_test_case().full_name()}};
  all.insert(figures.begin(), figures.end());
  std::cout << "figures: " << boost::json::serialize(all) << std::endl;
}

}  // namespace holdfast::test
