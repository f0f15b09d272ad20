#!/usr/bin/env bash
# Measures this machine and writes docs/speed/NAME.md with its plots: rotary beside the memory's own speed, beside the
# plain loop compiled for the same instruction set, beside other libraries, and time against work.
#   scripts/machine_report.sh [NAME] [--without-peers] [--page-only]
# NAME: as in granite-rapids; by default what /proc/cpuinfo says. --page-only: the page of what was measured before.
# --without-peers: no other libraries, which are gigabytes from PyPI and half an hour. Without them 10 to 20 minutes
# on a quiet machine, no command above 100 seconds. ROTARY_MEASURE=CMD: put in front of each measurement, as in
# "taskset -c 1".
set -euo pipefail
. "$(dirname "$0")/lib.sh"

name= peers=yes measuring=yes
for option in "$@"; do
  case "$option" in
    -h|--help) sed -n '2,8s/^# //p' "$0"; exit 0 ;;
    --without-peers) peers= ;;
    --page-only) measuring= ;;
    -*) say "machine_report.sh: unknown option $option; there are --without-peers and --page-only"; exit 2 ;;
    *) name=$option ;;
  esac
done

# The name by which the processor is known, where its family and model are those of a known one.
default_name() {
  local vendor family model
  field() { sed -n "s/^$1[[:space:]]*: //p" /proc/cpuinfo | head -n 1; }
  vendor=$(field vendor_id) family=$(field "cpu family") model=$(field model)
  case "$vendor $family $model" in
    "GenuineIntel 6 143") echo sapphire-rapids ;;
    "GenuineIntel 6 207") echo emerald-rapids ;;
    "GenuineIntel 6 173" | "GenuineIntel 6 174") echo granite-rapids ;;
    "AuthenticAMD 25 "1[6-9] | "AuthenticAMD 25 "2[0-9] | "AuthenticAMD 25 "9[6-9] | "AuthenticAMD 25 "1[0-2][0-9] | "AuthenticAMD 25 "16[0-9]) echo zen-4 ;;
    "AuthenticAMD 26 "*) echo zen-5 ;;
    *) { field "model name"; uname -m; } | head -n 1 | sed 's/([^)]*)//g' | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9\n' - | sed 's/^-//; s/-$//' ;;
  esac
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
  local rotary dtype threads target
  rotary=$("$root/scripts/build.sh" --with bench | tail -n 1)
  git -C "$root" rev-parse --short HEAD >"$figures/commit"
  date +%F >"$figures/date"
  measured rows.jsonl "$rotary" bench --json --plot "$pages/$name-ceiling.svg" --threads 1 \
    --filter op=rotate,layout=bthd,head_dim=128
  measured growth.jsonl "$rotary" bench --json --dtype f32 --growth "$pages/$name-growth.svg"
  for threads in 1 $([ "$jobs" -eq 1 ] || echo "$jobs"); do
    for dtype in f32 bf16 f16; do
      measured "grid-$dtype-$threads.jsonl" "$rotary" bench --grid full --json --seconds 0.03 \
        --filter "dtype=$dtype,threads=$threads"
      measured "loop-native-$dtype-$threads.jsonl" "$ROTARY_BUILD/bench/beside_loop" --dtype "$dtype" \
        --threads "$threads" --rounds 9
      [ -x "$ROTARY_BUILD/bench/beside_loop_avx2" ] && "$rotary" targets | grep -q '^avx2' || continue
      measured "loop-avx2-$dtype-$threads.jsonl" env ROTARY_TARGET=avx2 "$ROTARY_BUILD/bench/beside_loop_avx2" \
        --dtype "$dtype" --threads "$threads" --rounds 9
    done
  done
  rm -rf "$figures/peers"
  [ -n "$peers" ] || return 0
  "$root/scripts/peers.sh" --out "$figures/peers" >/dev/null
  cp "$figures/peers/peers.svg" "$pages/$name-peers.svg"
}

[ -z "$measuring" ] || measure_all
python3 "$root/bench/machine_page.py" "$name" "$figures" >"$figures/page.md"
mv "$figures/page.md" "$pages/$name.md"
echo "$pages/$name.md"
