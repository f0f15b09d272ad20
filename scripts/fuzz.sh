#!/usr/bin/env bash
# Searches by libFuzzer (clang) for an input that a reader, a kernel or a check gets wrong.
#   scripts/fuzz.sh [TARGET] [SECONDS] [--keep]   default: all, 60 seconds each
# A target is NAME of a tests/fuzz/NAME.cpp. The search begins with its seeds and its committed corpus, NAME.corpus
# beside it, an input in hex on each line, which the ordinary tests run too; that of configs with the files of published
# models too. --keep writes the corpus anew: the inputs that are needed to reach what was reached, at most as many bytes
# as ROTARY_FUZZ_KEEP says. A finding lies in build/fuzz/findings; it becomes a line of the corpus once it is mended.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

target=all seconds=60 keep=
for word in "$@"; do
  case "$word" in
    --keep) keep=1 ;;
    [0-9]*) seconds=$word ;;
    *) target=$word ;;
  esac
done
need "${core_packages[@]}" "${test_packages[@]}" ninja-build clang
need_sanitizers
build=${ROTARY_FUZZ:-$root/build/fuzz}
findings=$build/findings
bodies=("$root"/{core,files,tools}/tests/fuzz/*.cpp)
names=()
for body in "${bodies[@]}"; do
  grep -q '^void one(' "$body" || continue  # the two programs that run a body
  name=$(basename "$body" .cpp)
  if [ "$target" = all ] || [ "$target" = "$name" ]; then names+=("$name"); fi
done
[ ${#names[@]} -gt 0 ] || { say "fuzz.sh: no target named $target"; exit 2; }

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE="-O1 -gline-tables-only" -DROTARY_TESTS=ON -DROTARY_FUZZ=ON -DROTARY_CUDA=OFF >&2
cmake --build "$build" -j "$jobs" --target "${names[@]/#/fuzz_}" "${names[@]/#/replay_}" >&2
mkdir -p "$findings"
if [ -d /dev/shm ]; then export TMPDIR=/dev/shm; fi  # files of a body need no disk

# pack FOLDER: its inputs in hex, the shortest first, up to a number of bytes.
pack() {
  local left=${ROTARY_FUZZ_KEEP:-16384} size file
  find "$1" -type f -printf '%s %p\n' | sort -n | while read -r size file; do
    left=$((left - size))
    [ "$left" -ge 0 ] || continue
    od -An -v -tx1 "$file" | tr -d ' \n'
    echo
  done
}

passed=0 failed=0
for name in "${names[@]}"; do
  corpus=$build/corpus/$name body=("$root"/*/tests/fuzz/"$name".cpp) more=()
  case "$name" in config | extend) more=("$root/files/tests/golden/configs") ;; esac
  "$build/tests/replay_$name" "${body[0]%.cpp}.corpus" --write-seeds "$corpus"
  say "== fuzz $name, $seconds s"
  if "$build/tests/fuzz_$name" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=2560 -malloc_limit_mb=1024 \
       -max_len=4096 -dict="$corpus.dict" -artifact_prefix="$findings/$name-" -print_final_stats=1 \
       "$corpus" "${more[@]}" >"$build/$name.log" 2>&1; then
    passed=$((passed + 1))
    grep -E '^#[0-9]+.*DONE|number_of_executed_units|average_exec' "$build/$name.log" >&2 || true
  else
    failed=$((failed + 1))
    tail -n 40 "$build/$name.log" >&2
  fi
  if [ -n "$keep" ]; then
    rm -rf "$corpus.least"
    mkdir "$corpus.least"
    "$build/tests/fuzz_$name" -set_cover_merge=1 -max_len=4096 "$corpus.least" "$corpus" >"$build/$name.merge.log" 2>&1
    pack "$corpus.least" >"${body[0]%.cpp}.corpus"
  fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
