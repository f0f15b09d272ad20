#!/usr/bin/env bash
# Compares the libraries of this tree with those of an earlier release, by Debian's abidiff.
#   scripts/abi.sh DIST    the folder that scripts/release.sh made of it: its source archive is built, and this tree
#   ROTARY_ABI=DIR         where to build (default build/abi)
# Both are built here, with debug information, so that types and their members are compared, as far as public headers
# show them. Prints abidiff's reports. Exit 1: programs that were compiled against the old libraries may not run.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ $# -eq 1 ] && archive=$1/$(ls "$1" | grep -xE 'rotary-[0-9.]+\.tar\.gz') ||
  { say "usage: scripts/abi.sh DIST, a folder with the source archive of an earlier release"; exit 2; }
need "${core_packages[@]}" abigail-tools
work=${ROTARY_ABI:-$root/build/abi}
rm -rf "$work/old-source"
mkdir -p "$work/old-source"
# -m: new times, since build-old may hold objects of an earlier release.
tar -C "$work/old-source" --strip-components=1 -xmzf "$archive"

# build SOURCE NAME: its libraries, installed in $work/NAME.
build() {
  cmake -S "$1" -B "$work/build-$2" -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=ON -DROTARY_TESTS=OFF \
        -DROTARY_CLI=OFF -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_FLAGS="-O0 -g" >&2
  cmake --build "$work/build-$2" -j "$jobs" >&2
  rm -rf "${work:?}/$2"
  cmake --install "$work/build-$2" --prefix "$work/$2" >&2
}
build "$work/old-source" old
build "$root" new

bad=0
for old in "$work"/old/lib/librotary*.so; do
  new=$work/new/${old#"$work/old/"} status=0
  echo "== ${old##*/}"
  if [ ! -e "$new" ]; then echo "gone"; bad=1; continue; fi
  abidiff --headers-dir1 "$work/old/include" --headers-dir2 "$work/new/include" --drop-private-types "$old" "$new" ||
    status=$?
  [ $((status & 11)) -eq 0 ] || bad=1  # 1 and 2 are its errors, 8 is a change that breaks programs, 4 any change
done
exit "$bad"
