#!/usr/bin/env bash
# The core as one file: compiled by one command without another flag, called from C++ and C, refused under -ffast-math.
#   one_file.sh SOURCE_DIR CXX [HASH]
# Without HASH at -O0 and without exceptions; with it at -O2, by hand, and core/tests/bits must have that hash.
set -euo pipefail
source=$1 cxx=$2 hash=${3:-}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$source/scripts/amalgamate.sh" "$scratch/rotary"
cd "$scratch/rotary"

# The refusal is the first error: what comes behind it need not be read.
! $cxx -std=c++20 -ffast-math -Wfatal-errors -fsyntax-only rotary.cpp 2>../log && grep -q '"rotary: ' ../log ||
  { echo "-ffast-math: not refused, or not by rotary's sentence"; exit 1; }
flags=(-O0 -fno-exceptions -fno-rtti)
[ -z "$hash" ] || flags=(-O2)
time $cxx -std=c++20 "${flags[@]}" -c rotary.cpp
printf '%s\n' '#include "rotary.h"' '#include "rotary_c.h"' \
  'int main() { rotary::self_test(); return rotary_self_test(); }' >main.cpp
$cxx -std=c++20 main.cpp rotary.o -o main -pthread
./main
${CC:-cc} -std=c99 -Wpedantic -Werror -I.. -c "$source/core/tests/one_rotation.c" -o one.o
$cxx one.o rotary.o -o one -pthread
./one
[ -n "$hash" ] || exit 0
sed 's/"rotary\/\(rotary\|self_test\|targets\)\.h"/"rotary.h"/' "$source/core/tests/bits/bits_test.cpp" >bits.cpp
$cxx -std=c++20 -O1 -I"$source/core" bits.cpp rotary.o -o bits -pthread
./bits "$hash"
