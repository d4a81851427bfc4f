#!/bin/bash
# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Runs clang-tidy with the checks of .clang-tidy on the C++ files that have changed: those that differ from the commit at
# which this branch left origin's main branch. On the main branch itself, the parent commit counts.
#
#   tools/clang_tidy.sh [--build FOLDER] [--seconds N]    scratch files go into FOLDER (build/clang-tidy). It begins no
#                                                         file after N seconds, and names the files that are left.
#
#   --all         checks all sources, and so the headers that they include.
#   --find        prints the path of the newest clang-tidy here. Fails if that is older than 16, which has no checks for
#                 coroutines.
#   --self-test   shows that it is able to fail.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=scripts/lib/usage.sh
. "$root/scripts/lib/usage.sh"
# Only the library keeps these rules. Elsewhere a lambda must outlive its coroutine, which rules/coroutines.py checks.
# Tests need the same random numbers each time. Code that runs once need not be fast.
library_only=-cppcoreguidelines-avoid-capturing-lambda-coroutines,-bugprone-random-generator-seed
library_only+=,-performance-inefficient-string-concatenation,-performance-inefficient-vector-operation

all=no seconds=1000000 build=$root/build/clang-tidy what=check
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) help ;;
    --all) all=yes ;;
    --seconds | --build)
      [ -n "${2-}" ] || refuse "$1"
      if [ "$1" = --build ]; then build=$2; else seconds=$2; fi
      shift
      ;;
    --find | --self-test) what=$1 ;;
    *) refuse "$1" ;;
  esac
  shift
done

# All programs of that name on PATH, the highest number last. One without a number has the version that it prints.
tidy=$(compgen -c clang-tidy | grep -xE 'clang-tidy(-[0-9]+)?' | sort -u | while read -r name; do
  echo "$("$name" --version | sed -n 's/.*version \([0-9]*\).*/\1/p') $(command -v "$name")"
done | sort -n | tail -n 1) || tidy=
if [ "${tidy%% *}" -lt 16 ] 2>/dev/null || [ -z "$tidy" ]; then
  echo "there is no clang-tidy 16 or later on PATH: scripts/setup installs one" >&2
  exit 1
fi
tidy=${tidy#* }

# look_at FILE WORD...: prints the findings in a file, and fails if there are any. Findings in others' headers are left
# out: the analyzer takes objects of Asio's awaiters for uninitialized. No file takes a quarter of an hour.
look_at() {
  local file=$1 status=0 out words=(--quiet "--config-file=$root/.clang-tidy")
  shift
  [[ $file == src/* || $file == include/* ]] || words+=("--checks=$library_only")
  # Users may use deprecated functions.
  [[ $file != test/package/* ]] || words+=(--extra-arg=-UBOOST_ASIO_NO_DEPRECATED)
  if [ $((SECONDS)) -gt "$seconds" ]; then
    echo "left to --all: $file"
    return
  fi
  out=$(ulimit -t 900 && "$tidy" "${words[@]}" "$PWD/$file" "$@" 2>&1) || status=$?
  echo "[$SECONDS s] $file"
  [ $status -ne 0 ] || return 0
  # The notes of such a finding may be about our files.
  if grep -qE '^/[^ ]*: (warning|error): ' <<<"$out" &&
    ! grep -qE "^$PWD/[^ ]*: (warning|error): |clang-diagnostic-error" <<<"$out"; then
    return 0
  fi
  echo "$out"
  return 1
}

# The C++ files that differ from the base, also those that are not committed. Only the flags of a test that must not
# compile lead to other_boost.
changed() {
  local kinds=(-- '*.cpp' '*.hpp' ':!test/package/other_boost') base
  base=$(git merge-base HEAD origin/HEAD 2>/dev/null) || base=
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then base=$(git rev-parse -q --verify HEAD^) || return 0; fi
  git diff --name-only --diff-filter=d "$base" "${kinds[@]}"
  git ls-files --others --exclude-standard "${kinds[@]}"
}

if [ "$what" = --find ]; then echo "$tidy" && exit; fi
if [ "$what" = --self-test ]; then
  # shellcheck source=tools/clang_tidy_self_test.sh
  . "$root/tools/clang_tidy_self_test.sh"
  exit
fi
cd "$root"
if [ $all = yes ]; then
  mapfile -t files < <(git ls-files -- 'src/*.cpp' 'example/*.cpp' 'bench/*.cpp' 'test/*.cpp')
else
  mapfile -t files < <(changed | sort -u)
fi
if [ ${#files[@]} -eq 0 ]; then echo "no C++ has changed" && exit; fi
# Unity builds and precompiled headers are off, because the analyzer does not see into the files that they include.
# For a file that CMake does not compile, such as a header, clang-tidy takes the flags of the most similar file.
cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_CXX_COMPILER_LAUNCHER= \
  -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DHOLDFAST_BUILD_BENCHMARKS=ON -DHOLDFAST_RABBITMQ=ON -DCMAKE_UNITY_BUILD=OFF \
  -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON >/dev/null
SECONDS=0 # the bound is for clang-tidy
failed=0
for file in "${files[@]}"; do
  while [ "$(jobs -pr | wc -l)" -ge 2 ]; do wait -n || failed=1; done
  look_at "$file" -p "$build" &
done
while [ -n "$(jobs -p)" ]; do wait -n || failed=1; done
exit $failed
