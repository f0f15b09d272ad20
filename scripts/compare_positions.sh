#!/usr/bin/env bash
# Trains nanoGPT's CPU model on a text once for each position encoding, compares the losses, and shows what
# happens past the trained length. One core and a few minutes a run, as many runs at once as there are cores.
#   scripts/compare_positions.sh TEXT [OUTPUT [STEPS]]    default: runs, 2000
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ -f "${1:-}" ] || { say "compare_positions.sh: usage: scripts/compare_positions.sh TEXT [OUTPUT [STEPS]]"; exit 2; }
text=$1 output=${2:-runs} steps=${3:-2000}
rotary=${ROTARY:-$("$root/scripts/build.sh" --with torch | tail -n 1)}
mkdir -p "$output"
train() {
  local resume=()
  [ ! -f "$output/$1/checkpoint.safetensors" ] || resume=(--resume)
  "$rotary" train --text "$text" --preset nanogpt-cpu --position "$1" --steps "$steps" --threads 1 "${resume[@]}" --output "$output/$1" \
    >"$output/$1.log" 2>&1 || { say "compare_positions.sh: training with position $1 failed, see $output/$1.log"; return 1; }
}
export -f train say
export rotary text output steps
positions=(rope learned sinusoidal none alibi)
printf '%s\n' "${positions[@]}" | xargs -P "$jobs" -I{} bash -c 'train {}'
"$rotary" compare "${positions[@]/#/$output/}" --output "$output/positions.svg"
"$rotary" perplexity "$output/rope" --length 64,128,256,512 --output "$output/lengths.jsonl"
