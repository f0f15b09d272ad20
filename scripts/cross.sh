#!/usr/bin/env bash
# Builds the core and core/tests/bits for other machines and compilers, without a warning, and runs it where this
# machine or an emulator can: every hash must be the committed one.
#   scripts/cross.sh [--quick] [TARGET...]     default: all targets; --quick: at -O1, by default a few
#   ROTARY_CACHE=DIR   where PyPI's ziglang goes, 100 MB, and what zig builds (default ~/.cache/rotary)
#   ROTARY_CROSS=DIR   where to build (default build/cross)
# Prints a table of what compiled, linked and ran. Exit 1: something failed or another hash; 77: no PyPI.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

build_root=${ROTARY_CROSS:-$root/build/cross}
log_dir=$build_root/logs

# TARGET compiler system processor runner: of "native" the system and processor are this machine's. "engine" is a
# project under -ffast-math and worse that has rotary by add_subdirectory.
targets='gcc                    g++     native  -           -
clang                  clang++ native  -           -
engine                 g++     native  -           -
zig                    zig     native  -           -
x86_64-macos           zig     Darwin  x86_64      none
aarch64-macos          zig     Darwin  arm64       none
x86_64-windows-gnu     zig     Windows AMD64       wine
aarch64-windows-gnu    zig     Windows ARM64       none
x86_64-linux-musl      zig     Linux   x86_64      qemu-x86_64
aarch64-linux-musl     zig     Linux   aarch64     qemu-aarch64
riscv64-linux-musl     zig     Linux   riscv64     qemu-riscv64
powerpc64le-linux-musl zig     Linux   ppc64le     qemu-ppc64le
s390x-linux-musl       zig     Linux   s390x       qemu-s390x
arm-linux-musleabihf   zig     Linux   arm         qemu-arm
x86-linux-musl         zig     Linux   i686        qemu-i386
wasm32-wasi            zig     WASI    wasm32      node'
quick='x86-linux-musl wasm32-wasi'  # AArch64 has a stage of its own, neon

flags=-O2 wanted=() default=$(awk '{ print $1 }' <<<"$targets")
for argument in "$@"; do
  case "$argument" in
    --quick) flags=-O1 default=$quick ;;
    -*) say "cross.sh: unknown option $argument; usage: scripts/cross.sh [--quick] [TARGET...]"; exit 2 ;;
    *) grep -q "^$argument " <<<"$targets" ||
         { say "cross.sh: no target named $argument; there are: $(awk '{ printf "%s ", $1 }' <<<"$targets")"; exit 2; }
       wanted+=("$argument") ;;
  esac
done
[ ${#wanted[@]} -gt 0 ] || read -rd '' -a wanted <<<"$default" || true
bits=$(sed -nE 's/^set\(rotary_bits ([0-9a-f]{16})\)$/\1/p' "$root/core/tests/bits/CMakeLists.txt")
[ -n "$bits" ] || { say "cross.sh: core/tests/bits/CMakeLists.txt names no hash"; exit 1; }

# compiler_options TARGET COMPILER SYSTEM PROCESSOR: CMake's options into the array options.
compiler_options() {
  local compiler=$2 system=$3 processor=$4 zig_target="-target $1"
  options=(-DCMAKE_CXX_COMPILER="$compiler")
  [ "$compiler" = zig ] || return 0
  [ "$system" != native ] || zig_target=""
  # With the flags: zig builds a libc++ for each kind of optimisation, and CMake's own checks give none.
  zig_tools "$build_root/tools-$1" "$flags $zig_target"
  if [ "$system" != native ]; then options+=(-DCMAKE_SYSTEM_NAME="$system" -DCMAKE_SYSTEM_PROCESSOR="$processor"); fi
  case "$system" in
    Darwin) options+=(-DCMAKE_OSX_SYSROOT= -DCMAKE_INSTALL_NAME_TOOL=/bin/true) ;;
    WASI) options+=(-DCMAKE_EXECUTABLE_SUFFIX=.wasm) ;;
  esac
}

# try TARGET COMPILER SYSTEM PROCESSOR RUNNER: one row of the table.
try() {
  local target=$1 build=$build_root/$1 log=$log_dir/$1.log options run program output start=$SECONDS
  local cxx_flags="" source=$root
  compiler_options "$@"
  [ "$3" != WASI ] || cxx_flags=-fno-exceptions
  [ "$target" != engine ] || source=$root/packaging/tests/engine
  row() { printf '%-23s %-9s %-7s %-28s %s\n' "$target" "$1" "$2" "$3" "$((SECONDS - start)) s"; }
  if ! cmake -S "$source" -B "$build" "${options[@]}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="$cxx_flags" \
         -DCMAKE_CXX_FLAGS_RELEASE="$flags" -DROTARY_FILES=OFF -DROTARY_TESTS=OFF -DROTARY_BITS=ON \
         -DROTARY_WERROR=ON "${launcher[@]}" >"$log" 2>&1; then
    row no "" "see $log"
    return 1
  fi
  if ! cmake --build "$build" -j "$jobs" --target rotary rotary_gpu >>"$log" 2>&1; then
    row no "" "see $log"
    return 1
  fi
  if ! cmake --build "$build" -j "$jobs" >>"$log" 2>&1; then row yes no "see $log"; return 1; fi
  if ! runner_of "$5"; then row yes yes "not run"; return 0; fi
  program=$(find "$build" -type f -path '*/tests/bits/bits_test*' ! -path '*.dir/*' ! -name '*.pdb' \
                 ! -name '*.cmake' | head -n 1)
  if output=$("${run[@]}" "$program" "$bits" 2>&1) &&
     { [ "$target" != engine ] || "$build/engine" >>"$log" 2>&1; }; then
    echo "$output" >>"$log"
    row yes yes "$(tr -d '\r' <<<"$output" | sed -n 's/^bits //p')"
  else
    echo "$output" >>"$log"
    row yes yes "$(tr -d '\r' <<<"$output" | sed -n 's/^bits //p') failed, see $log"
    return 1
  fi
}

need g++ make cmake
case " ${wanted[*]} " in *" clang "*) need clang ;; esac
if [ -n "$(for target in "${wanted[@]}"; do grep "^$target  *zig " <<<"$targets"; done)" ]; then
  install_zig || exit $?
fi
launcher=()
if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
mkdir -p "$log_dir"
printf '%-23s %-9s %-7s %-28s %s\n' target compiled linked "ran, with the hash" took
bad=0
for target in "${wanted[@]}"; do
  read -ra row_of <<<"$(grep "^$target " <<<"$targets")"
  try "${row_of[@]}" || bad=1
done
exit "$bad"
