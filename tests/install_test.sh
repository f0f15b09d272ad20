#!/usr/bin/env bash
# Installs into a scratch prefix, moves it, and builds the consumer against it by find_package and by pkg-config;
# then the program of the README, whose output must be the one printed there.
#   install_test.sh SOURCE_DIR BUILD_DIR CXX [FLAGS...]
set -euo pipefail
source=$1 build=$2 cxx=$3
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/prefix"
"$scratch/prefix/bin/rotary" --version

expect() { [ "$2" = "$3" ] || { printf '%s: expected\n%s\nbut got\n%s\n' "$1" "$2" "$3"; exit 1; }; }
wanted='8 pairs, q[0] = -1.131112'

cmake -S "$source/tests/install" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
      -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="$*" >/dev/null
cmake --build "$scratch/consumer" >/dev/null
expect find_package "$wanted" "$("$scratch/consumer/consumer")"

libdir=$(dirname "$(find "$scratch/prefix" -name rotary.pc)")
export PKG_CONFIG_PATH=$libdir
# shellcheck disable=SC2046
"$cxx" -std=c++20 "$@" "$source/tests/install/main.cpp" -o "$scratch/by_pc" $(pkg-config --cflags --libs rotary_files rotary)
expect pkg-config "$wanted" "$("$scratch/by_pc")"

# The first ```cpp block of the README is a whole program; the first ```text block after it is what it prints.
awk '/^```cpp$/ && !seen {on=1; seen=1; next} /^```$/ {on=0} on' "$source/README.md" >"$scratch/readme.cpp"
awk '/^```cpp$/ {seen=1} /^```text$/ && seen && !done {on=1; next} /^```$/ && on {on=0; done=1} on' "$source/README.md" >"$scratch/readme.txt"
[ -s "$scratch/readme.cpp" ] && [ -s "$scratch/readme.txt" ]
# shellcheck disable=SC2046
"$cxx" -std=c++20 "$@" "$scratch/readme.cpp" -o "$scratch/readme" $(pkg-config --cflags --libs rotary)
expect README "$(cat "$scratch/readme.txt")" "$("$scratch/readme")"
echo "installed, moved, found, and the README's program prints what the README says"
