#!/usr/bin/env bash
# The core as one file: compiled by one command without another flag, called from C++ and C, refused under -ffast-math.
#   one_file.sh SOURCE_DIR CXX DIR [HASH]
# DIR is left with rotary.cpp and rotary.o. Without HASH it compiles at -O0, also without exceptions and all types but
# f32; with it, by hand, at -O2, and core/tests/bits must have that hash.
set -euo pipefail
source=$1 cxx=$2 dir=$3 hash=${4:-}
rm -rf "$dir"
"$source/scripts/amalgamate.sh" "$dir"
cd "$dir"

# The refusal is the first error: what comes behind it need not be read.
! $cxx -std=c++20 -ffast-math -I . -Wfatal-errors -fsyntax-only rotary.cpp 2>log && grep -q '"rotary: ' log ||
  { echo "-ffast-math: not refused, or not by rotary's sentence"; exit 1; }
time $cxx -std=c++20 ${hash:+-O2} -Wall -Wextra -I . -c rotary.cpp
${CC:-cc} -std=c99 -Wpedantic -Werror -I . -c "$source/core/tests/one_rotation.c" -o one.o
$cxx one.o rotary.o -o one -pthread
./one
for header in rotary/*.h; do echo "#include <$header>"; done >main.cpp
echo 'int main() { rotary::self_test(); return rotary_self_test(); }' >>main.cpp
$cxx -std=c++20 -I . main.cpp rotary.o -o main -pthread
./main
if [ -n "$hash" ]; then
  $cxx -std=c++20 -O1 -I . -I "$source/core" "$source/core/tests/bits/bits_test.cpp" rotary.o -o bits -pthread
  ./bits "$hash"
else
  $cxx -std=c++20 -fno-exceptions -fno-rtti -DROTARY_HAS_F16=0 -DROTARY_HAS_BF16=0 -I . -c rotary.cpp -o small.o
  $cxx one.o small.o -o small -pthread
  ./small f32
fi
