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

# skip WORDS: why this machine cannot do it; ends the script as skipped tests end.
skip() {
  printf '%s: skipped: %s\n' "$(basename "$0")" "$*"
  exit 77
}

# fetch_packages ARCH SUITE DIR PACKAGE...: unpacks packages of Debian into DIR, for another machine or of
# another release, without installing them. By apt with lists of its own, from where this machine has its
# packages; fails where they cannot be had.
fetch_packages() {
  local arch=$1 suite=$2 root state mirror
  mkdir -p "$3" && root=$(cd "$3" && pwd) && state=$root/apt
  shift 3
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  mirror=$(apt-get indextargets --format "\$(REPO_URI)" "Created-By: Packages" | grep -m1 -E '/debian/?$') || return 1
  mkdir -p "$state"/{lists/partial,cache/archives/partial}
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" \
    >"$state/sources.list"
  local apt=(apt-get -qq -o "APT::Architecture=$arch" -o "APT::Architectures=$arch" -o "Dir::State::Lists=$state/lists"
    -o Dir::State::status=/dev/null -o "Dir::Cache=$state/cache" -o "Dir::Etc::SourceList=$state/sources.list"
    -o Dir::Etc::SourceParts=/dev/null -o Acquire::Languages=none -o APT::Sandbox::User=root)
  "${apt[@]}" update >"$state/log" 2>&1 || return 1
  (cd "$state/cache" && "${apt[@]}" download "$@" >>"$state/log" 2>&1) || return 1
  local package
  for package in "$state"/cache/*.deb; do dpkg-deb -x "$package" "$root" || return 1; done
  rm -rf "$state"
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
