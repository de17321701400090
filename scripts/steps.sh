# shellcheck shell=bash
# Sourced by the scripts here: goes to the top of the tree and gives them one way to say things.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# Compiled once for every build folder and every clone on the machine.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1

# say WORDS: one line of progress, with the seconds since the script began.
say() { printf '[%3ds] %s\n' "$SECONDS" "$*"; }

# die WORDS: what is wrong and what to do about it; ends the script.
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# build PRESET [TARGET...]: configures the preset if it never was, and builds.
build() {
  local preset=$1 log
  shift
  log=build/$preset/configure.log
  mkdir -p "build/$preset"
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    die "configuring the preset $preset failed; its output is above and in $log"
  fi
  cmake --build --preset "$preset" -- "$@" || die "building the preset $preset failed"
}

# Prints the first NVIDIA GPU of the machine; fails where there is none that works.
card() {
  command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -m1 '^GPU '
}

# Prints a folder on a disk: a pause to disk refuses memory file systems and /tmp.
disk() {
  local folder
  for folder in "$PWD/build" /var/tmp; do
    case "$folder $(stat -f -c %T "$folder")" in
      /tmp/* | *" tmpfs" | *" ramfs") ;;
      *) printf '%s\n' "$folder" && return ;;
    esac
  done
  die "neither build/ nor /var/tmp is on a disk: clone the project to one"
}
