# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# shellcheck shell=sh
# The folder for files that scripts have fetched or built, for all clones. Source this file. It needs a function `say`.

# Sets `cache` to a folder that can be written. $1 is the clone's own folder, for users without a cache folder.
find_cache() {
  case ${XDG_CACHE_HOME:-} in
    /*) cache=$XDG_CACHE_HOME/holdfast ;;
    *) cache=${HOME:+$HOME/.cache/holdfast} ;;
  esac
  if [ -z "$cache" ] || ! mkdir -p "$cache" 2>/dev/null || [ ! -w "$cache" ]; then
    say "this user has no cache folder that can be written (${cache:-HOME is not set}): $1/.cache is used instead"
    cache=$1/.cache
    mkdir -p "$cache"
  fi
}
