#!/usr/bin/env bash
# Whether the tests see a fault: changes one place of a source at a time, and runs the tests that see that source.
#   scripts/mutate.sh [N] [OPTION]... [FILE]...   a sample of N mutants, 200 by default, of the core and the config
#                                                 reader or of these files; fails where fewer than 95 % are killed
#   scripts/mutate.sh --classic                   the mistakes that people make with a RoPE; fails if one survives
# The options are those of tools/mutate: --seed, --skip, --jobs, --list.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

need "${core_packages[@]}" "${test_packages[@]}" ninja-build binutils python3
build=${ROTARY_MUTATE:-$root/build/mutate}
count=()
if [[ ${1:-} =~ ^[0-9]+$ ]]; then count=(--count "$1"); shift; fi
if [ "${1:-}" = --classic ]; then count=(--list "$root/tools/tests/mutants/classic.txt"); shift; fi
# An index outside an array or a vector ends a test.
flags="-O1 -D_GLIBCXX_ASSERTIONS -fsanitize=bounds -fsanitize-undefined-trap-on-error"
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=g++ -DCMAKE_BUILD_TYPE=Release \
  "-DCMAKE_CXX_FLAGS_RELEASE=$flags" -DROTARY_FAST_BUILD=OFF -DROTARY_TESTS=ON -DROTARY_CUDA=OFF >&2
cmake --build "$build" -j "$jobs" --target core_tests config_test files_test models_table_test >&2
exec "$root/tools/mutate" "$build" --jobs "$jobs" "${count[@]}" "$@"
