# shellcheck shell=sh
# Where scripts keep what they have fetched or built, for all clones: source it. It wants a function `say`.

# Sets `cache` to a folder that can be written. $1: the clone's own folder, for users who have none.
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
