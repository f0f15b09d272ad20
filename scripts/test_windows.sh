#!/usr/bin/env bash
# Runs the program for Windows under wine beside this machine's: each must print and write the same bytes and end with
# the same status. Left out: renaming over a file that is being read, which wine 8 cannot, and all digits of what
# diagnose measures, whose sines are the C library's.
#   scripts/test_windows.sh PROGRAM [BUILD]
#   PROGRAM: rotary, built here from the same sources; BUILD: the folder where scripts/wheel.sh win_amd64 built (default
#   build/wheel/build-win_amd64-program), which has what rotary.exe is made of
#   ROTARY_CACHE=DIR   where PyPI's ziglang is (default ~/.cache/rotary)
# The last line says how many commands agreed. Exit 77: no wine here, or no PyPI.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] && [ -x "$1" ] || { say "test_windows.sh: give a program; see the first lines of $0"; exit 2; }
program=$(realpath "$1")
build=$(realpath "${2:-$root/build/wheel/build-win_amd64-program}")
[ "$(uname -m)" = x86_64 ] || { say "test_windows.sh: wine needs x86-64"; exit 77; }
need wine64
install_zig || exit $?
cmake --build "$build" -j "$jobs" --target rotary_cli >&2

work=$root/build/windows-test
export LC_ALL=C.UTF-8 HF_HUB_CACHE=cache WINEDEBUG=-all WINEPREFIX=$work/wine
wine=$(command -v wine64 || echo /usr/lib/wine/wine64)
"$wine" wineboot -i >/dev/null 2>&1
same=0 other=0
for side in here there; do
  rm -rf "${work:?}/$side"
  mkdir -p "$work/$side/größe-模型"
  cp -r "$root/tests/golden/configs" "$root/tests/golden/gguf" "$root/tests/golden/runs" "$root/data/demo" "$work/$side/"
  cp "$root/data/demo/config.json" "$work/$side/größe-模型/"
  cp "$root/data/demo/qk.safetensors" "$work/$side/qk.safetensors"
  printf '{"hidden_size":' >"$work/$side/broken.json"
done

# both WORD...: runs it on both sides; $given, where set, is its standard input.
both() {
  local side words
  for side in here there; do
    words=("$program")
    [ "$side" = here ] || words=("$wine" "$build/bin/rotary.exe")
    (cd "$work/$side" && "${words[@]}" "$@" <"${given:-/dev/null}" >out 2>err && echo 0 >status || echo $? >status)
  done
  if diff -r "$work/here" "$work/there" >"$work/difference"; then
    same=$((same + 1))
  else
    other=$((other + 1))
    say "differs: rotary $*"
    head -n 6 "$work/difference" >&2
  fi
}

both --help-all
both models
both models llama
both explain
both explain all
both man
both targets
both completion bash
both inspect configs/*.json
for config in "$work"/here/configs/*.json "$work"/here/gguf/*.gguf; do
  config=${config#"$work/here/"}
  both inspect "$config"
  both inspect "$config" --json
done
both inspect qk.safetensors
both inspect größe-模型
both table configs/llama-3.1-8b.json --positions 0:4096 --output table.safetensors
both table configs/qwen2-7b.json --positions 7:9 --output größe-模型/表.safetensors
both apply configs/llama-3.1-8b.json --input qk.safetensors --output größe-模型/模.safetensors
both check configs/llama-3.1-8b.json --input qk.safetensors --against größe-模型/模.safetensors
both check configs/llama-3.1-8b.json --input qk.safetensors --against größe-模型/模.safetensors --pairing interleaved
both diagnose --before qk.safetensors --after größe-模型/模.safetensors --config configs/llama-3.1-8b.json
both apply configs/llama-3.1-8b.json --input qk.safetensors --output -
cp "$work/here/qk.safetensors" "$work/input"
given=$work/input both apply configs/llama-3.1-8b.json --input - --output -
given=$work/here/configs/llama-3.1-8b.json both inspect -
cp "$work/here/größe-模型/模.safetensors" "$work/here/old.safetensors"
cp "$work/here/größe-模型/模.safetensors" "$work/there/old.safetensors"
both apply configs/llama-3.1-8b.json --input qk.safetensors --output old.safetensors  # over a file that is there
both compare runs/none runs/rope --output compare.svg
# what must fail, with the same sentence and status
both inspect absent.json
both inspect broken.json
both inspect gguf
both inspect org/name
both inspect größe-模型/absent.json
both apply configs/llama-3.1-8b.json --input demo --output x.safetensors
both apply configs/llama-3.1-8b.json --input qk.safetensors --output absent/x.safetensors
both apply configs/llama-3.1-8b.json --input qk.safetensors --output gguf
both train
both inspekt
both inspect --no-such-option

# What tells of times, or of the build.
for words in "demo --data demo" --version; do
  if ! (cd "$work/there" && "$wine" "$build/bin/rotary.exe" $words >out 2>err </dev/null); then
    other=$((other + 1))
    say "fails: rotary $words: $(head -n 3 "$work/there/err")"
  fi
done

echo "$((same)) commands agreed, $other differed"
[ "$other" -eq 0 ]
