#!/usr/bin/env bash
# Builds the core and the kernel tests for another architecture and runs them under qemu.
#   scripts/test_emulated.sh aarch64|riscv64|ppc64le|s390x [BUILD_FOLDER]
# Exit 77, with the reason, where the cross compiler, qemu or GoogleTest's sources are absent.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/emulated.sh"

emulated_architecture "${1:-}" ||
  { say "test_emulated.sh: needs an architecture: aarch64, riscv64, ppc64le or s390x, but got \"${1:-}\""; exit 2; }
build=${2:-$root/build/$architecture}
googletest=/usr/src/googletest/googletest
# Those without MPFR.
tests="cpu/rotate_test cpu/angle_targets_test core/checks_test core/threads_test core/laws_test core/table_test"

skip() {
  echo "skipped: $1"
  exit 77
}
command -v "$compiler" >/dev/null || skip "no $compiler (apt-get install ${cross_packages[*]})"
emulator=$(command -v "qemu-$architecture-static" || command -v "qemu-$architecture") ||
  skip "no qemu-$architecture (apt-get install qemu-user-static)"
[ -f "$googletest/src/gtest-all.cc" ] || skip "no $googletest (apt-get install libgtest-dev)"

emulated_core "$build/core"
cat >"$build/Makefile" <<MAKE
tests := $tests
flags := $cross_flags -std=c++20 -O1 -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -MMD -I$root/include -I$root/src -I$root
command := $(command -v ccache || true) $compiler

all: \$(tests)
\$(tests): %: tests/%.o gtest-all.o gtest_main.o core/librotary.a
	@mkdir -p \$(@D)
	\$(command) -static -o \$@ \$^ -pthread
tests/%.o: $root/tests/%.cpp
	@mkdir -p \$(@D)
	\$(command) \$(flags) -c -o \$@ \$<
gtest%.o: $googletest/src/gtest%.cc
	\$(command) $cross_flags -O1 -I$googletest -I$googletest/include -c -o \$@ \$<
-include \$(wildcard tests/*/*.d)
MAKE
make -s -C "$build" -j "$jobs"
# Every job takes a share of each program's tests. Death tests start the program again, which the emulator cannot.
for test in $tests; do
  echo "== $test"
  shares=()
  for ((i = 0; i < jobs; ++i)); do
    GTEST_TOTAL_SHARDS=$jobs GTEST_SHARD_INDEX=$i \
      "$emulator" "$build/$test" --gtest_brief=1 --gtest_filter=-*DeathTest* &
    shares+=($!)
  done
  failed=0
  for share in "${shares[@]}"; do wait "$share" || failed=1; done
  [ "$failed" -eq 0 ] || exit 1
done
