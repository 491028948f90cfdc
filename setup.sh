#!/bin/bash
# Sets ett up on Debian 12 or 13 (Ubuntu 24.04 was not tried): installs missing packages, builds, runs.
#   ./setup.sh run               install missing packages, build, run examples/llemma_7b.lua
#   ./setup.sh test              the same, with the tests' packages, and run every test
#   ./setup.sh build             install missing packages and build into build/
#   ./setup.sh install [PREFIX]  build, then install (default /usr/local)
#   ./setup.sh packages          install missing packages, the linters' too; build nothing
# Safe to repeat: what is there already is left as it is. Needs root or sudo only when a
# package is missing. JOBS=N sets how many things are built or tested at a time.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")"

packages=(
  build-essential cmake ninja-build pkg-config
  liblua5.4-dev lua-filesystem lua-cjson lua-argparse
  libyaml-dev libedit-dev libseccomp-dev libxxhash-dev libopenblas-dev
  libisal-dev libzstd-dev libsqlite3-dev
  libopenmpi-dev openmpi-bin
)
optional_packages=(libxgboost-dev) # without it ett reads fitted models and makes none
test_packages=("${optional_packages[@]}" lua5.4 lua-busted libcmocka-dev libsimdjson-dev sqlite3 zstd python3)
# Not in every release; their specs skip without them.
optional_test_packages=(zsh fish python3-torch chromium chromium-driver slurmctld slurmd slurm-client)
lint_packages=(clang clang-format clang-tidy libclang-rt-dev cppcheck lua-check)

jobs=${JOBS:-$(nproc)}

say() { printf 'setup: %s\n' "$*"; }
die() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# Prints those of its arguments that are not installed.
missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      printf '%s\n' "$package"
  done
}

install_missing() {
  command -v dpkg-query >/dev/null ||
    die "this is no Debian or Ubuntu; install the equivalents of: $*"
  local missing
  mapfile -t missing < <(missing_of "$@")
  if [ ${#missing[@]} -eq 0 ]; then
    say "all packages are installed"
    return
  fi
  say "installing: ${missing[*]}"
  become_root || die "root is needed; as root, run: apt-get install ${missing[*]}"
  "${root[@]}" apt-get update -qq || say "the package lists could not be refreshed; using the existing ones"
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install: ${missing[*]}"
}

# Sets `root` to the words before a command that needs root; fails without sudo, or if sudo refuses.
become_root() {
  root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null && sudo true && root=(sudo)
  fi
}

# Installs those that the release has, one by one.
install_optional() {
  local package
  for package in "$@"; do
    (install_missing "$package") || say "continuing without $package"
  done
}

install_needed() {
  install_missing "${packages[@]}"
  install_optional "${optional_packages[@]}"
}

build() {
  say "building into build/"
  # A build tree of another generator or of a moved checkout cannot be used again.
  if [ -f build/CMakeCache.txt ] &&
    { ! grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja$' build/CMakeCache.txt ||
      ! grep -qx "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" build/CMakeCache.txt; }; then
    say "build/ was made for another folder or generator: making it again"
    rm -rf build
  fi
  cmake -S . -B build -G Ninja "$@"
  cmake --build build -j "$jobs"
}

case "${1:-}" in
packages)
  install_missing "${packages[@]}" "${test_packages[@]}" "${lint_packages[@]}"
  install_optional "${optional_test_packages[@]}"
  ;;
build)
  install_needed
  build
  ;;
run)
  install_needed
  build
  say "running: ett run examples/llemma_7b.lua"
  build/bin/ett run examples/llemma_7b.lua
  ;;
test)
  install_missing "${packages[@]}" "${test_packages[@]}"
  install_optional "${optional_test_packages[@]}"
  build -DETT_WERROR=ON
  say "testing"
  ctest --test-dir build --output-on-failure -j "$((jobs + 1))" # the specs of killed programs mostly wait
  ;;
install)
  install_needed
  build
  prefix=${2:-/usr/local}
  say "installing into $prefix"
  existing=$prefix
  while [ ! -e "$existing" ]; do existing=$(dirname "$existing"); done
  root=()
  if [ ! -w "$existing" ]; then
    become_root || die "'$existing' is not writable; run this as root, or ./setup.sh install PREFIX"
  fi
  umask 022 # other users run what is installed
  "${root[@]}" cmake --install build --prefix "$prefix" >/dev/null
  "${root[@]}" chown --reference=build build/install_manifest.txt # root's file would stop the next install
  say "installed $prefix/bin/ett"
  ;;
*)
  sed -n '2,9s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
