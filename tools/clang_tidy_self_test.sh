# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# shellcheck shell=bash
# The self-test of clang_tidy.sh, which sources this file: five bad sources and a good one, and which files have changed.

root=${root:?} work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
cd "$work" || exit
lose() {
  echo "FAILED: $*"
  exit 1
}
# try CHECK CODE: the check, or none if it is empty, must be what look_at reports.
try() {
  cat >src/a.cpp <<EOF
#include <coroutine>
#include <mutex>
#include <string>
#include <utility>
struct task {
  struct promise_type {
    task get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};
$2
EOF
  if look_at src/a.cpp -- -std=c++20 >said; then [ -z "$1" ]; else [ -n "$1" ] && grep -q "\[$1," said; fi || lose "$1: $(cat said)"
}
try "" 'task f() { co_await std::suspend_always(); } int g(int* p) { return p == nullptr ? 0 : *p; }'
try bugprone-use-after-move 'std::string f(std::string a) { std::string b = std::move(a); return a + b; }'
try clang-analyzer-core.NullDereference 'int f(int* p) { if (p == nullptr) return *p; return 0; }'
try performance-for-range-copy 'void g(const std::string&); void f(const std::string (&all)[2]) { for (auto s : all) g(s); }'
try cppcoreguidelines-avoid-capturing-lambda-coroutines \
  'task f(int n) { return [n]() -> task { co_await std::suspend_always(); (void)n; }(); }'
try cppcoreguidelines-no-suspend-with-lock \
  'task f(std::mutex& m) { std::lock_guard<std::mutex> l(m); co_await std::suspend_always(); }'
export seconds=-1
[ "$(look_at src/a.cpp -- -std=c++20)" = "left to --all: src/a.cpp" ] || lose "the bound of time"

commit() { git add . && git -c user.name=x -c user.email=x@example.invalid -c commit.gpgsign=false commit -qm x; }
expect() { [ "$(changed | sort | tr '\n' ' ')" = "$1" ] || lose "changed: $(changed)"; }
rm -f said src/a.cpp
git init -q -b main
touch a.hpp b.cpp && commit
expect ""
echo 1 >a.hpp && expect "" # without a parent commit there is nothing to compare with
commit
expect "a.hpp "
touch c.cpp && expect "a.hpp c.cpp " # not committed
commit
expect "c.cpp "
git update-ref refs/remotes/origin/HEAD HEAD^^ && expect "a.hpp c.cpp "
git rm -q c.cpp && expect "a.hpp "
echo "five bad sources are found"
