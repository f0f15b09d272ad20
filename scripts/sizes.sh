#!/usr/bin/env bash
# What a C program of one rotation (tests/install/one_rotation.c) gains by rotary: text and data of it, stripped, beside
# an empty program; the C++ library is dynamic. And the processor's seconds to compile the library.
#   scripts/sizes.sh        builds in build/sizes; exit 1: a bound of docs/embedding.md is broken, or a program is wrong
set -euo pipefail
. "$(dirname "$0")/lib.sh"

need g++ make cmake binutils
build_root=${ROTARY_SIZES:-$root/build/sizes}
mkdir -p "$build_root"
cd "$build_root"
bare="-fno-exceptions -fno-rtti -fno-asynchronous-unwind-tables"
bad=0

echo 'int main(void) { return 0; }' >empty.c
gcc -Os empty.c -o empty
bytes_of() { strip "$1" -o stripped && size stripped | awk 'NR == 2 { print $1 + $2 }'; }

# row NAME BOUND_KB FLAGS OPTION...
row() {
  local name=$1 bound=$2 flags=$3 lib=$1/librotary.a seconds kb left_out=() TIMEFORMAT=%0U
  cmake -S "$root" -B "$name" -DROTARY_FILES=OFF -DROTARY_TESTS=OFF -DCMAKE_CXX_FLAGS="$flags" "${@:4}" >"$name.log"
  cmake --build "$name" --target clean >>"$name.log"
  seconds=$({ time CCACHE_DISABLE=1 cmake --build "$name" --target rotary >>"$name.log" 2>&1; } 2>&1) ||
    { tail "$name.log"; exit 1; }
  gcc -std=c99 -Os -I"$root/include" -c "$root/tests/install/one_rotation.c" -o one.o
  g++ -Wl,--gc-sections one.o "$lib" -o "$name.bin" -pthread
  ! nm -C "$name.bin" | grep -E 'ios_base|std::cout|std::format' || { echo "$name: streams are in it"; bad=1; }
  case " $* " in *DTYPES=f32*) left_out=(f16) ;; esac
  "./$name.bin" "${left_out[@]}" 2>/dev/null || { echo "$name: $? results are wrong"; bad=1; }
  kb=$((($(bytes_of "$name.bin") - $(bytes_of empty) + 500) / 1000))
  [ "$kb" -lt "$bound" ] || bad=1
  printf '%-16s %6s %8s %9s\n' "$name" "$kb" "$bound" "$seconds"
}

small=("-DCMAKE_BUILD_TYPE=MinSizeRel" "-DROTARY_TARGETS=scalar;avx2")
printf '%-16s %6s %8s %9s\n' build KB "bound" seconds
row release 2000 ""
row release-avx2 1000 "" "${small[1]}"
row small 200 "" "${small[@]}"
row small-f32 150 "" "${small[@]}" -DROTARY_DTYPES=f32
row bare 150 "$bare" "${small[@]}" -DROTARY_THREADS=OFF
row bare-f32 130 "$bare" "${small[@]}" -DROTARY_THREADS=OFF -DROTARY_DTYPES=f32
! cmake -S "$root" -B refused -DROTARY_FILES=OFF -DROTARY_TARGETS=sse3 >refused.log 2>&1 ||
  { echo "ROTARY_TARGETS=sse3 was not refused"; bad=1; }
exit "$bad"
