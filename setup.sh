#!/bin/bash
# Sets ett up on Debian 12 or Ubuntu 24.04: installs what is missing, builds, runs.
#   ./setup.sh build    install missing packages and build into build/
#   ./setup.sh run      the same, then run the main job: ett run examples/llemma_7b.lua
#   ./setup.sh test     the same, then run every test
#   ./setup.sh install [PREFIX]   the same as build, then install (default /usr/local)
# Safe to repeat: what is there already is left as it is.
set -euo pipefail
cd "$(dirname "$0")"

packages=(
  build-essential cmake ninja-build pkg-config
  liblua5.4-dev lua5.4 lua-cjson lua-filesystem lua-argparse lua-penlight
  libyaml-dev libedit-dev libxxhash-dev libxgboost-dev libopenblas-dev liblapacke-dev
  libisal-dev libzstd-dev libsqlite3-dev libprotobuf-c-dev
  libopenmpi-dev openmpi-bin
)
test_packages=(lua-busted libcmocka-dev libsimdjson-dev)

say() { printf 'setup: %s\n' "$*"; }

install_missing() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' ||
      missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "all packages are there"
    return
  fi
  say "installing: ${missing[*]}"
  local root=()
  [ "$(id -u)" = 0 ] || root=(sudo)
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

build() {
  say "building into build/"
  cmake -S . -B build -G Ninja "$@"
  cmake --build build
}

case "${1:-}" in
build)
  install_missing "${packages[@]}"
  build
  ;;
run)
  install_missing "${packages[@]}"
  build
  say "running: ett run examples/llemma_7b.lua"
  build/bin/ett run examples/llemma_7b.lua
  ;;
test)
  install_missing "${packages[@]}" "${test_packages[@]}"
  build -DETT_WERROR=ON
  say "testing"
  ctest --test-dir build --output-on-failure -j2
  ;;
install)
  install_missing "${packages[@]}"
  build
  cmake --install build --prefix "${2:-/usr/local}"
  ;;
*)
  sed -n '2,7s/^# \{0,1\}//p' "$0"
  exit 2
  ;;
esac
