#!/usr/bin/env bash
# Tries other values of the constants of core/cpu/tuning.h on this machine (the streaming rule, the rows of a table at a
# time, the grain of threads). Prints those that are faster by more than the noise, else "nothing to change". A minute.
#   scripts/tune.sh [SECONDS [MIB]]      MIB: of the largest tensor, default 256
# ROTARY_TARGET=NAME chooses the instruction set.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

for option in "$@"; do
  case "$option" in -h|--help) sed -n '2,5s/^# //p' "$0"; exit 0 ;; esac
done
export ROTARY_BUILD=${ROTARY_BUILD:-$root/build/release}
"$root/scripts/build.sh" --with bench >/dev/null
exec "$ROTARY_BUILD/core/bench/tune" "$@"
