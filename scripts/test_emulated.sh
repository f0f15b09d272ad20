#!/usr/bin/env bash
# Builds the core and the kernel tests for another architecture and runs them under qemu.
#   scripts/test_emulated.sh aarch64|s390x [BUILD_FOLDER]
# Installs the cross compiler and qemu where they are absent.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

architecture=${1:-} flags=
case "$architecture" in
  aarch64) ;;
  s390x) flags=-march=z14 ;;  # the first with vectors of floats
  *) say "test_emulated.sh: needs an architecture: aarch64 or s390x, but got \"$architecture\""; exit 2 ;;
esac
compiler=$architecture-linux-gnu-g++
need make cmake libgtest-dev
command -v "$compiler" >/dev/null || need "g++-$architecture-linux-gnu"
command -v "qemu-$architecture-static" >/dev/null || need qemu-user-static
build=${2:-$root/build/$architecture}
googletest=/usr/src/googletest/googletest
# Tests of what the lanes of an instruction set compute, without MPFR.
tests="rotate_test angle_targets_test table_test"

launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S "$root" -B "$build/core" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$architecture" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$flags" "${launcher[@]}" -DCMAKE_BUILD_TYPE=Release \
  -DROTARY_FILES=OFF -DROTARY_TESTS=OFF >&2
cmake --build "$build/core" -j "$jobs" --target rotary >&2
# The checkout is named by a link, since make splits a path with a space.
ln -sfn "$root" "$build/source"
cat >"$build/Makefile" <<MAKE
tests := $tests
flags := $flags -std=c++20 -O1 -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -MMD
flags += -Isource/core/include -Isource/core -Isource
command := $(command -v ccache || true) $compiler

all: \$(tests)
\$(tests): %: tests/%.o gtest-all.o gtest_main.o core/core/librotary.a
	@mkdir -p \$(@D)
	\$(command) -static -o \$@ \$^ -pthread
tests/%.o: source/core/tests/%.cpp
	@mkdir -p \$(@D)
	\$(command) \$(flags) -c -o \$@ \$<
gtest%.o: $googletest/src/gtest%.cc
	\$(command) $flags -O1 -I$googletest -I$googletest/include -c -o \$@ \$<
-include \$(wildcard tests/*.d)
MAKE
make -s -C "$build" -j "$jobs"
# Every job takes a share of each program's tests. Death tests start the program again, which the emulator cannot.
for test in $tests; do
  echo "== $test"
  shares=()
  for ((i = 0; i < jobs; ++i)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$i \
      "qemu-$architecture-static" "$build/$test" --gtest_brief=1 --gtest_filter=-*DeathTest* &
    shares+=($!)
  done
  failed=0
  for share in "${shares[@]}"; do wait "$share" || failed=1; done
  [ "$failed" -eq 0 ] || exit 1
done
