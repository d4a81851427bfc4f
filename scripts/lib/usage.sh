# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# shellcheck shell=sh
# Messages and options of scripts. Source this file before a change of folder.

here=$(cd "$(dirname "$0")" && pwd)/${0##*/}
# Prints the script's first comment below its licence, for --help and for unknown options.
usage() { sed -n '5,/^[^#]/s/^# \{0,1\}//p' "$here"; }
help() {
  usage
  exit 0
}
say() { echo "${0##*/}: $*" >&2; }
give_up() {
  say "$*"
  exit 1
}
# need TOOL...: fails if a program is missing.
need() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || give_up "there is no $tool here"
  done
}
# refuse [WORD]
refuse() {
  { [ $# -eq 0 ] || echo "${0##*/}: not understood: $1"; usage; } >&2
  exit 2
}
# options_of_server VERSIONS WORD...: the options of scripts that fetch a server. Sets `version` and `fetch`. VERSIONS are
# those with which the tests are run, the oldest first. The oldest one is the default.
# shellcheck disable=SC2034  # for the scripts that source this
options_of_server() {
  versions=$1 version=${1%% *} fetch=yes
  shift
  while [ $# -gt 0 ]; do
    case $1 in
      -h | --help) help ;;
      --no-fetch) fetch=no ;;
      --version)
        [ $# -ge 2 ] || refuse "$1"
        version=$2
        shift
        ;;
      --versions)
        echo "$versions"
        exit
        ;;
      *) refuse "$1" ;;
    esac
    shift
  done
}
