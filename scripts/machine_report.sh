#!/usr/bin/env bash
# Measures this machine and writes docs/speed/NAME.md: rotary beside the memory's own speed and beside the plain loop
# compiled for the same instruction set, and the cells below the goals (printed as well).
#   scripts/machine_report.sh [NAME] [--full] [--with-peers] [--page-only]
# NAME: as in granite-rapids; by default what /proc/cpuinfo says. About ten minutes on a quiet machine. --full: AVX2 on
# a machine with more. --with-peers: other libraries too, which are gigabytes from PyPI and half an hour. --page-only:
# the page of what was measured before. ROTARY_MEASURE=CMD: put in front of each measurement, as in "taskset -c 1".
set -euo pipefail
. "$(dirname "$0")/lib.sh"

name= peers= full= measuring=yes
for option in "$@"; do
  case "$option" in
    -h|--help) sed -n '2,7s/^# //p' "$0"; exit 0 ;;
    --full) full=yes ;;
    --with-peers) peers=yes ;;
    --without-peers) peers= ;;
    --page-only) measuring= ;;
    -*) say "machine_report.sh: unknown option $option; there are --full, --with-peers and --page-only"; exit 2 ;;
    *) name=$option ;;
  esac
done

field() { sed -n "s/^$1[[:space:]]*: //p" /proc/cpuinfo | head -n 1; }
within() {  # NUMBER FROM-TO...
  local range
  for range in "${@:2}"; do
    if [ "$1" -ge "${range%-*}" ] && [ "$1" -le "${range#*-}" ]; then return 0; fi
  done
  return 1
}

# The name by which the processor is known, where its family and model are those of a known one. AMD's models: as the
# Linux kernel groups them (arch/x86/kernel/cpu/amd.c).
default_name() {
  local model
  model=$(field model)
  case "$(field vendor_id) $(field "cpu family")" in
    "GenuineIntel 6") case "$model" in
      106) echo ice-lake; return ;;
      143) echo sapphire-rapids; return ;;
      207) echo emerald-rapids; return ;;
      173 | 174) echo granite-rapids; return ;;
    esac ;;
    "AuthenticAMD 25")
      if within "$model" 0-15 32-95; then echo zen-3; return; fi
      if within "$model" 16-31 96-175; then echo zen-4; return; fi ;;
    "AuthenticAMD 26") if within "$model" 0-47 64-79 96-127 208-215; then echo zen-5; return; fi ;;
  esac
  { field "model name"; uname -m; } | head -n 1 | sed 's/([^)]*)//g' | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' - | sed 's/^-//; s/-$//'
}
name=${name:-$(default_name)}
case "$name" in *[!a-z0-9.-]*|"") say "machine_report.sh: NAME has lower-case letters, digits, '-' and '.' but got '$name'"; exit 2 ;; esac

need python3
export ROTARY_BUILD=${ROTARY_BUILD:-$root/build/release}
figures=$root/build/machine/$name pages=$root/docs/speed
mkdir -p "$figures" "$pages"

# measured FILE COMMAND...: its output, kept only if it ends well.
measured() {
  local file=$1 start=$SECONDS
  shift
  # shellcheck disable=SC2086 # words
  ${ROTARY_MEASURE:-} "$@" >"$figures/$file.part"
  mv "$figures/$file.part" "$figures/$file"
  say "$file: $((SECONDS - start)) s"
}

measure_all() {
  local rotary dtype threads
  rotary=$("$root/scripts/build.sh" --with bench | tail -n 1)
  git -C "$root" rev-parse --short HEAD >"$figures/commit"
  date +%F >"$figures/date"
  rm -f "$figures"/*.jsonl
  measured rows.jsonl "$rotary" bench --json --threads 1 \
    --filter op=rotate,layout=bthd,head_dim=128
  for threads in 1 $([ "$jobs" -eq 1 ] || echo 2); do
    for dtype in f32 bf16 f16; do
      measured "loop-native-$dtype-$threads.jsonl" "$ROTARY_BUILD/bench/beside_loop" "dtype=$dtype" \
        "threads=$threads" rounds=5
      [ -n "$full" ] && [ -x "$ROTARY_BUILD/bench/beside_loop_avx2" ] || continue
      "$rotary" --version | grep -q '^targets [^;]*avx2, avx512' || continue
      measured "loop-avx2-$dtype-$threads.jsonl" env ROTARY_TARGET=avx2 "$ROTARY_BUILD/bench/beside_loop_avx2" \
        "dtype=$dtype" "threads=$threads" rounds=5
    done
  done
  rm -rf "$figures/peers"
  [ -n "$peers" ] || return 0
  "$root/scripts/peers.sh" --out "$figures/peers" >/dev/null
}

[ -z "$measuring" ] || measure_all
python3 "$root/bench/machine_page.py" "$name" "$figures" >"$figures/page.md"
mv "$figures/page.md" "$pages/$name.md"
echo "$pages/$name.md"
