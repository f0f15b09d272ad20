#!/usr/bin/env bash
# Instructions per element of rotate and per pair of a table: Markdown on standard output.
#   scripts/count_instructions.sh [TARGET [ARCHITECTURE]]
#     TARGET: avx2 unless told; counted by callgrind, which runs no AVX-512
#     ARCHITECTURE: aarch64 (unless told where TARGET is neon), riscv64, ppc64le or s390x: a cross build, counted by a
#     plugin of qemu, bench/count_plugin.cpp
set -euo pipefail
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/emulated.sh"

target=${1:-avx2}
architecture=${2:-}
[ "$target" != neon ] || architecture=${architecture:-aarch64}
counts=$(mktemp)
trap 'rm -f "$counts" "$counts.log"' EXIT

# count NUMBER: prints the instructions of a cell.
if [ -z "$architecture" ]; then
  need valgrind
  "$root/scripts/build.sh" --with bench >/dev/null
  program=("${ROTARY_BUILD:-$root/build/release}/bench/count_instructions")
  count() {
    valgrind --tool=callgrind --callgrind-out-file="$counts" --toggle-collect=measured "${program[@]}" "$1" 2>&1 &&
      awk '/^(summary|totals):/ { n = $2 } END { print "instructions:", n }' "$counts"
  }
else
  emulated_architecture "$architecture" || { say "count_instructions.sh: no architecture $architecture"; exit 2; }
  need "${core_packages[@]}"
  need_emulated qemu-user  # qemu-user-static can load no plugin
  build=${ROTARY_BUILD:-$root/build/count-$architecture}
  emulated_core "$build/core"
  "$compiler" $cross_flags -std=c++20 -O3 -DNDEBUG -ffp-contract=off -I"$root/include" -static \
    -o "$build/count_instructions" "$root/bench/count_instructions.cpp" "$build/core/librotary.a" -pthread
  # QEMU 9 dropped version 1 of the interface; what is used here is the same in 2.
  version=1
  [ "$("qemu-$architecture" --version | sed -n 's/.*version \([0-9]*\).*/\1/p')" -lt 9 ] || version=2
  g++ -std=c++20 -O2 -Wall -Wextra -shared -fPIC -DROTARY_PLUGIN_VERSION=$version -o "$build/count_plugin.so" \
    "$root/bench/count_plugin.cpp"
  program=("qemu-$architecture" "$build/count_instructions")
  count() { "qemu-$architecture" -d plugin -plugin "file=$build/count_plugin.so" "$build/count_instructions" "$1" 2>&1; }
fi

echo "| work | instructions, $target |"
echo "|---|---:|"
"${program[@]}" | while read -r number units name; do
  ROTARY_TARGET=$target count "$number" >"$counts.log" || { cat "$counts.log" >&2; exit 1; }
  awk -v units="$units" -v name="$name" '$1 == "instructions:" { n = $2 }
    END { if (!n) exit 1; printf "| %s | %.2f |\n", name, n / units }' "$counts.log"
done
