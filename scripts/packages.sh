#!/usr/bin/env bash
# Makes librotary0.1, librotary-dev and rotary as packages for Debian, of this tree and for this machine's release.
#   scripts/packages.sh     prints the paths of the three
# scripts/bare.sh packages installs them in a bare Debian and compiles programs against them.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

need "${core_packages[@]}" dpkg-dev file
umask 022  # the packages have folders of this mode
build=$root/build/packages
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr -DBUILD_SHARED_LIBS=ON \
      -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON \
      -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-z,defs -DCMAKE_CXX_FLAGS="\"-ffile-prefix-map=$root=.\"" -DROTARY_TESTS=OFF >&2
cmake --build "$build" -j "$jobs" >&2
rm -f "$build"/*.deb
(cd "$build" && cpack -G DEB) >&2
printf '%s\n' "$build"/*.deb
