#!/usr/bin/env bash
# Instructions per element of rotate and per pair of a table, counted by callgrind: Markdown on standard output.
#   scripts/count_instructions.sh [TARGET]     default: avx2; callgrind runs no AVX-512
set -euo pipefail
. "$(dirname "$0")/lib.sh"

target=${1:-avx2}
need valgrind
"$root/scripts/build.sh" --with bench >/dev/null
program=${ROTARY_BUILD:-$root/build/release}/core/bench/count_instructions
counts=$(mktemp)
trap 'rm -f "$counts" "$counts.log"' EXIT

echo "| work | instructions, $target |"
echo "|---|---:|"
"$program" | while read -r number units name; do
  ROTARY_TARGET=$target valgrind --tool=callgrind --callgrind-out-file="$counts" --toggle-collect=measured \
    "$program" "$number" >"$counts.log" 2>&1 || { cat "$counts.log" >&2; exit 1; }
  awk -v units="$units" -v name="$name" '/^(summary|totals):/ { n = $2 }
    END { if (!n) exit 1; printf "| %s | %.2f |\n", name, n / units }' "$counts"
done
