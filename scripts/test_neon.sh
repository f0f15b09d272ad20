#!/bin/sh
# Builds the core and the kernel tests for AArch64 and runs them under qemu: test_neon.sh [BUILD_FOLDER].
# Exit 77, with the reason, where the cross compiler, qemu or GoogleTest's sources are absent.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$source/build/neon}
compiler=aarch64-linux-gnu-g++
googletest=/usr/src/googletest/googletest
tests="cpu/rotate_test core/checks_test core/threads_test core/laws_test core/table_test"  # those without MPFR

skip() {
  echo "skipped: $1"
  exit 77
}
command -v "$compiler" >/dev/null || skip "no $compiler (apt-get install g++-aarch64-linux-gnu)"
emulator=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skip "no qemu-aarch64 (apt-get install qemu-user-static)"
[ -f "$googletest/src/gtest-all.cc" ] || skip "no $googletest (apt-get install libgtest-dev)"

mkdir -p "$build"
cat >"$build/Makefile" <<MAKE
core := $(cd "$source" && echo src/values/*.cpp src/table/*.cpp src/rotate/*.cpp src/runtime/*.cpp src/measure/ceiling.cpp src/cpu/targets.cpp)
tests := $tests
objects := \$(core:%.cpp=%.o) scalar_target.o scalar_angles.o neon_target.o gtest-all.o gtest_main.o
flags := -std=c++20 -O2 -ffp-contract=off -Wall -Wextra -Wconversion -Wshadow -MMD -I$source/include -I$source/src -I$source
command := $(command -v ccache || true) $compiler
target = \$(flags) -DROTARY_TARGET_NAME=\$1 '-DROTARY_LANES="cpu/lanes/\$1.h"' '-DROTARY_ANGLE_LANES="cpu/lanes/angles_scalar.h"'

all: \$(tests)
\$(tests): %: tests/%.o \$(objects)
	@mkdir -p \$(@D)
	\$(command) -static -o \$@ \$^ -pthread
src/%.o tests/%.o: flags += -DROTARY_HAS_SCALAR=1 -DROTARY_HAS_NEON=1
src/%.o: $source/src/%.cpp
	@mkdir -p \$(@D)
	\$(command) \$(flags) -c -o \$@ \$<
tests/%.o: $source/tests/%.cpp
	@mkdir -p \$(@D)
	\$(command) \$(flags) -c -o \$@ \$<
%_target.o: $source/src/cpu/target.cpp
	\$(command) \$(call target,\$*) -c -o \$@ \$<
%_angles.o: $source/src/cpu/angles.cpp
	\$(command) \$(call target,\$*) -c -o \$@ \$<
gtest%.o: $googletest/src/gtest%.cc
	\$(command) -O1 -I$googletest -I$googletest/include -c -o \$@ \$<
-include \$(wildcard *.d src/*/*.d tests/*/*.d)
MAKE
make -s -C "$build" -j"${ROTARY_JOBS:-2}"
for test in $tests; do
  echo "== $test"
  # Death tests start the program again, which the emulator cannot.
  "$emulator" "$build/$test" --gtest_brief=1 --gtest_filter=-*DeathTest*
done
