#include <boost/test/unit_test.hpp>
#include <holdfast/testing/store.hpp>
#include <initializer_list>

using holdfast::consul::txn_operation;
using holdfast::testing::store;
using holdfast::testing::subject;

namespace {

struct tree {
  store model;

  explicit tree(std::initializer_list<const char*> keys) {
    for (const char* const key : keys) model.write(txn_operation::set(key, "1"), {});
    model.take_fired();
  }

  // Whether this key's watch sees the transaction.
  bool wakes(const char* key, const std::vector<txn_operation>& operations) {
    const store::watch_id id = model.watch({subject::kind::key, key});
    BOOST_TEST(model.transact(operations, {}).applied);
    return model.take_fired() == std::vector{id};
  }
};

const std::vector<txn_operation> twice{txn_operation::remove_tree("b/2"), txn_operation::remove_tree("b/")};

}  // namespace

// The differential test compares all of it with a real agent. These were once different, and seldom come up there.
BOOST_AUTO_TEST_SUITE(testing_store)

BOOST_AUTO_TEST_CASE(a_second_deletion_in_a_transaction_wakes_the_one_key_that_the_first_left) {
  BOOST_TEST(tree({"b/1", "b/2"}).wakes("b/1", twice));
  BOOST_TEST(tree({"b/1", "b/1/x", "b/2"}).wakes("b/1", twice));
}

BOOST_AUTO_TEST_CASE(a_second_deletion_in_a_transaction_wakes_no_others) {
  BOOST_TEST(!tree({"b/1", "b/2", "b/3"}).wakes("b/1", twice));
  BOOST_TEST(!tree({"b/1", "b/1/x", "b/2"}).wakes("b/1/x", twice));
}

BOOST_AUTO_TEST_SUITE_END()
