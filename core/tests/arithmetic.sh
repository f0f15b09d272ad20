#!/usr/bin/env bash
# The guards of core/runtime/arithmetic.h: every source of the core includes it first; flags that change the arithmetic
# are refused by it; and it keeps products and sums apart under all flags that it accepts.
#   arithmetic.sh CXX CORE_DIR
set -euo pipefail
cxx=$1 core=$2
bad=0
complain() { echo "$1"; bad=1; }

for file in $(sed -nE 's/^  ([a-z_/]+\.cpp).*/\1/p' "$core/CMakeLists.txt") cpu/target.cpp cpu/angles.cpp; do
  [ "$(grep -m1 '^#include' "$core/$file")" = '#include "runtime/arithmetic.h"' ] ||
    complain "$file: the first include must be runtime/arithmetic.h"
done

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
compile() { "$cxx" -std=c++20 -I "$core" "$@"; }
guard='#include "runtime/arithmetic.h"'
refused() {
  compile -fsyntax-only -x c++ "$@" - <<<"$guard" >"$scratch/log" 2>&1 && complain "not refused: $*"
  grep -q '"rotary: ' "$scratch/log" || { cat "$scratch/log"; complain "refused for another reason: $*"; }
}
refused -ffast-math
refused -Ofast
refused -ffinite-math-only
case $("$cxx" --version) in
  *clang*) refused -ffp-model=fast ;;
  *) refused -funsafe-math-optimizations
     refused -freciprocal-math
     refused -fno-signed-zeros
     refused -fno-signed-zeros -fno-trapping-math -fassociative-math
     case $("$cxx" -dumpmachine) in x86_64*) refused -mfpmath=387 ;; esac ;;
esac

# ---- accepted flags: no fused instruction, nothing reordered -------------------------------------
case $("$cxx" -dumpmachine) in
  x86_64*) machine="-mavx2 -mfma" fused='vf[n]*m(add|sub)' divided='vdivss'
           intrinsics='#include <immintrin.h>
             __m256 g(__m256 a, __m256 b, __m256 c) { return _mm256_add_ps(_mm256_mul_ps(a, b), c); }' ;;
  aarch64*) machine="" fused='f(n)?m(add|sub|la|ls)' divided='fdiv'
            intrinsics='#include <arm_neon.h>
             float32x4_t g(float32x4_t a, float32x4_t b, float32x4_t c) { return vaddq_f32(vmulq_f32(a, b), c); }' ;;
  *) echo "no fused instructions are known for this machine"; exit "$bad" ;;
esac
functions="float f(float a, float b, float c) { return a * b + c; }
           float h(float a) { return a / 3.0f; }"
# assembly HEADER FLAG...: into $scratch/s
assembly() {
  # shellcheck disable=SC2086
  printf '%s\n%s\n%s\n' "$1" "$intrinsics" "$functions" | compile -O2 -S -w $machine "${@:2}" -x c++ -o "$scratch/s" -
}
fuses() { grep -qE "$fused" "$scratch/s"; }
assembly "" -ffp-contract=fast
fuses || complain "this compiler does not fuse even without the header: the checks below say nothing"
accepted=("" -ffp-contract=fast -ffp-contract=on -frounding-math -fno-trapping-math)
case $("$cxx" --version) in
  *clang*) accepted+=(-funsafe-math-optimizations -freciprocal-math -fassociative-math) ;;
esac
for flag in "${accepted[@]}"; do
  # shellcheck disable=SC2086
  assembly "$guard" $flag 2>/dev/null || continue  # not a flag of this compiler
  ! fuses || complain "fused under '$flag'"
  [ "$(grep -cE "$divided" "$scratch/s")" -eq 1 ] || complain "a division was changed under '$flag'"
done
[ "$bad" -eq 0 ] && echo "every source is guarded; hostile flags are refused or without effect"
exit "$bad"
