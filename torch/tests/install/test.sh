#!/usr/bin/env bash
# Installs the libraries into a scratch prefix, moves it, checks that the headers need no others, and builds and runs a
# consumer by find_package(rotary COMPONENTS torch torch_models).
#   install/test.sh BUILD_DIR CXX
set -euo pipefail
build=$1 cxx=$2
source=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first" --component library >/dev/null
mv "$scratch/first" "$scratch/prefix"

include=$scratch/prefix/include
headers=0
while read -r header; do
  headers=$((headers + 1))
  while read -r needed; do
    [ -f "$include/$needed" ] || { echo "$header includes $needed, which is not installed"; exit 1; }
  done < <(sed -nE 's/^#include "(.*)"$/\1/p' "$header")
done < <(find "$include/rotary_torch" -name '*.h')
[ "$headers" -gt 0 ] || { echo "no header of rotary_torch is installed"; exit 1; }

cmake -S "$source" -B "$scratch/consumer" -DCMAKE_PREFIX_PATH="$scratch/prefix" -DCMAKE_CXX_COMPILER="$cxx" >/dev/null
cmake --build "$scratch/consumer" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
output=$("$scratch/consumer/consumer")
wanted='q[0] = -1.131112, attention gives 32 values'
[ "$output" = "$wanted" ] || { printf 'expected\n%s\nbut got\n%s\n' "$wanted" "$output"; exit 1; }
echo "$headers headers installed, moved, found"
