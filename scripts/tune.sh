#!/usr/bin/env bash
# Sweeps the constants of src/cpu/tuning.h on this machine (prefetch distances, the streaming rule, heads per table row,
# the grain of threads) and prints what it would choose beside what is built in. Two minutes; a quiet machine.
#   scripts/tune.sh [--seconds S] [--largest MIB] [--json]
# ROTARY_TARGET=NAME chooses the instruction set.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

for option in "$@"; do
  case "$option" in -h|--help) sed -n '2,5s/^# //p' "$0"; exit 0 ;; esac
done
export ROTARY_BUILD=${ROTARY_BUILD:-$root/build/release}
"$root/scripts/build.sh" --with bench >/dev/null
exec "$ROTARY_BUILD/bench/tune" "$@"
