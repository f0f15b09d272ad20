#!/usr/bin/env bash
# The config reader as one file: programs in C++ and C print by it what the library's program prints, bit for bit.
#   one_file.sh SOURCE_DIR CXX DIR PROGRAM [FLAG...]
# DIR: of core/tests/one_file.sh, with rotary.o. PROGRAM: read_configs.cpp with the library.
set -euo pipefail
source=$1 cxx=$2 dir=$3 program=$4
"$source/scripts/amalgamate.sh" "$dir" --config
cd "$dir"

! $cxx -std=c++20 -ffast-math -I . -Wfatal-errors -fsyntax-only rotary_config.cpp 2>log && grep -q '"rotary: ' log ||
  { echo "-ffast-math: not refused, or not by rotary's sentence"; exit 1; }
time $cxx -std=c++20 -Wall -Wextra -I . "${@:5}" -c rotary_config.cpp
$cxx -std=c++20 -I . "$source/files/tests/read_configs.cpp" rotary_config.o rotary.o -o read_configs_cpp -pthread
${CC:-cc} -std=c99 -Wpedantic -Werror -I . -c "$source/files/tests/read_configs.c"
$cxx read_configs.o rotary_config.o rotary.o -o read_configs_c -pthread
golden=$source/files/tests/golden
models=("$golden"/configs/*.json "$golden"/gguf/*.gguf "$golden/expected.json")
"$program" "${models[@]}" >expected
tail -n 1 expected | grep "^CONFIG_MISSING "  # the last is no config
for language in cpp c; do
  "./read_configs_$language" "${models[@]}" | cmp expected -
done
echo "$(wc -l <expected) lines about ${#models[@]} files are the library's"
