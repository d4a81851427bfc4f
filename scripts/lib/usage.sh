# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# shellcheck shell=sh
# Prints a script's first comment below its licence for --help, and for unknown options. Source this file before a
# change of folder.

here=$(cd "$(dirname "$0")" && pwd)/${0##*/}
usage() { sed -n '5,/^[^#]/s/^# \{0,1\}//p' "$here"; }
help() {
  usage
  exit 0
}
# refuse [WORD]
refuse() {
  { [ $# -eq 0 ] || echo "${0##*/}: not understood: $1"; usage; } >&2
  exit 2
}
