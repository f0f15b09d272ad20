#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: builds for it, tests on it, measures. Leaves logs and the peers' page in $OUT
# (default build/gpu-out). One line a stage at the end; exit status 0 where all that ran was right.
#   scripts/gpu.sh [STAGE]...      STAGE: build, test, peers, sanitize; default all, in this order
#   scripts/gpu.sh pack            with a network: packs into build/gpu-carry all that a machine without one needs
# test runs each program twice, with the library's launches and with overlapped ones; peers measures both beside Liger
# and flashinfer. A whole run takes less than ten minutes on 16 cores and an H200. This is an estimate: build 2.5, test
# 1.5, peers 2, sanitize 2. With less time leave out sanitize first, then test.
# Environment: SANITIZE_SECONDS a tool (60), ROTARY_PEERS_PYTHON (python3), PEERS=NAME,... (liger,flashinfer), CELLS as
# run.py's --filter (bf16 of 1, 8, 64 and 512 tokens); an empty PEERS or CELLS is all
set -uo pipefail
. "$(dirname "$0")/lib.sh"

build=$root/build/gpu
out=${OUT:-$root/build/gpu-out}
carried=$root/build/gpu-carry
python=${ROTARY_PEERS_PYTHON:-python3}
summary=() failed=0

# finish NAME STATUS WHAT: a line of the summary; 77 is skipped.
finish() {
  local word=passed
  case "$2" in 0) ;; 77) word=skipped ;; *) word=FAILED; failed=1 ;; esac
  summary+=("$1: $word${3:+: $3}")
}

# Debian packages and wheels that the machine lacks and cannot fetch. Fails where one could not be had.
pack() {
  local missing=0
  mkdir -p "$carried/deb" "$carried/whl"
  for package in nlohmann-json3-dev libcli11-dev libgtest-dev; do
    (cd "$carried/deb" && apt-get download -qq "$package") || { say "gpu.sh: no package $package"; missing=1; }
  done
  for wheel in liger-kernel==0.8.5 'apache-tvm-ffi<0.2'; do
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
      --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 -d "$carried/whl" "$wheel" ||
      { say "gpu.sh: no $wheel"; missing=1; }
  done
  python3 -m pip download -q --no-deps --only-binary=:all: -d "$carried" flashinfer-python==0.7.2.post1 &&
    python3 "$root/bench/slim_flashinfer.py" "$carried"/flashinfer_python-*.whl "$carried/flashinfer.zip" ||
    { say "gpu.sh: no flashinfer"; missing=1; }
  rm -f "$carried"/flashinfer_python-*.whl
  du -sh "$carried"
  return "$missing"
}

# Unpacked beside the system, never into it.
unpack() {
  local prefix=/tmp/rotary-gpu
  if compgen -G "$carried/deb/*.deb" >/dev/null; then
    for package in "$carried"/deb/*.deb; do dpkg -x "$package" "$prefix"; done
    export CMAKE_PREFIX_PATH=$prefix/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
    export CPATH=$prefix/usr/include:$prefix/usr/include/x86_64-linux-gnu
    export LIBRARY_PATH=$prefix/usr/lib/x86_64-linux-gnu
    export LD_LIBRARY_PATH=$prefix/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  fi
  if compgen -G "$carried/whl/*.whl" >/dev/null && [ ! -d /tmp/rotary-site ]; then
    "$python" -m pip install -q --no-index --no-deps --no-compile --target /tmp/rotary-site "$carried"/whl/*.whl
  fi
  if [ -f "$carried/flashinfer.zip" ] && [ ! -d /tmp/rotary-site/flashinfer ]; then
    "$python" -m zipfile -e "$carried/flashinfer.zip" /tmp/rotary-site
  fi
  [ ! -d /tmp/rotary-site ] || export PYTHONPATH=/tmp/rotary-site${PYTHONPATH:+:$PYTHONPATH}
}

stage_build() {
  local capability
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DROTARY_CUDA=ON -DROTARY_TESTS=ON -DROTARY_BENCH=ON \
    -DCMAKE_CUDA_ARCHITECTURES="$capability-real" &&
    cmake --build "$build" -j "$jobs" --target help >"$build/targets" &&
    cmake --build "$build" -j "$jobs" --target rotary_peers_cuda \
      $(grep -oE '\bon_[a-z_]+_test\b' "$build/targets" | sort -u)
}

device_tests() { find "$build/tests" -maxdepth 1 -name 'on_*_test' -type f | sort; }

stage_test() {
  local status=0 program overlapped
  [ -n "$(device_tests)" ] || { echo "no device tests are built"; return 1; }
  for overlapped in 0 1; do
    for program in $(device_tests); do
      echo "== $(basename "$program")"
      ROTARY_OVERLAPPED=$overlapped "$program" --gtest_brief=1 || status=1
    done
  done
  return "$status"
}

# sanitize PROGRAM TOOL [OPTION]...: in shards, as the grids are long under the tools, until SANITIZE_SECONDS are over.
# A shard that was cut off fails where it had printed a finding; so does a program that did not finish one.
sanitize() {
  local shard shards=8 status=0 start=$SECONDS log name
  log=$(mktemp) name="$2 $(basename "$1")"
  for ((shard = 0; shard < shards; ++shard)); do
    local left=$((${SANITIZE_SECONDS:-60} - SECONDS + start))
    [ "$left" -gt 0 ] || break
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard timeout "$left" \
      compute-sanitizer --tool "$2" "${@:3}" --error-exitcode 9 "$1" --gtest_brief=1 >"$log" 2>&1
    status=$?
    cat "$log"
    if [ "$status" -eq 124 ] && grep '^=========' "$log" | grep -qvE 'COMPUTE-SANITIZER|SUMMARY: 0 |[Tt]erminated'; then
      status=9
    fi
    [ "$status" -eq 0 ] || break
  done
  rm -f "$log"
  case "$status" in 0 | 124) ;; *) echo "$name: FAILED in shard $shard, exit status $status"; return 1 ;; esac
  [ "$shard" -gt 0 ] || { echo "$name: no shard finished in ${SANITIZE_SECONDS:-60} s"; return 1; }
  echo "$name: $shard of $shards shards, nothing found"
}

# A test lets cudaMalloc fail on purpose, so failed calls of the runtime are no findings. The programs run side by side.
stage_sanitize() {
  local found=0 program tool running each
  command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer"; return 77; }
  for tool in "memcheck --report-api-errors no" racecheck; do
    running=()
    for program in $(device_tests); do
      # shellcheck disable=SC2086  # a tool and its options
      sanitize "$program" $tool &
      running+=($!)
    done
    for each in "${running[@]}"; do wait "$each" || found=1; done
  done
  return "$found"
}

stage_peers() {
  "$python" "$root/bench/run.py" --device cuda --library "$build/lib/librotary_peers_cuda.so" --out "$build/peers" \
    --peers "${PEERS-liger,flashinfer}" \
    --filter "${CELLS-dtype=bf16,tokens=1,tokens=8,tokens=64,tokens=512}" || return
  mkdir -p "$out/peers" && cp "$build"/peers/gpu.md "$build"/peers/gpu.jsonl "$out/peers/"
}

case "${1:-}" in
  pack) pack; exit ;;
  -h|--help) sed -n '2,11s/^# //p' "$0"; exit 0 ;;
esac
[ $# -gt 0 ] || set -- build test peers sanitize
for stage in "$@"; do
  case "$stage" in
    build|test|peers|sanitize) ;;
    *) say "gpu.sh: no stage named $stage; there are: build test peers sanitize, and pack alone"; exit 2 ;;
  esac
done
nvidia-smi -L >/dev/null 2>&1 || { say "gpu.sh: nvidia-smi finds no GPU here: nothing is run"; exit 77; }
mkdir -p "$out" || exit 1
unpack
for stage in "$@"; do
  say "== $stage"
  start=$SECONDS
  "stage_$stage" >"$out/$stage.log" 2>&1
  status=$?
  tail -n 25 "$out/$stage.log" >&2
  finish "$stage" "$status" "$((SECONDS - start)) s, $stage.log"
  if [ "$stage" = build ] && [ "$status" -ne 0 ]; then break; fi
done
printf '%s\n' "$(nvidia-smi -L)" "${summary[@]}" | tee "$out/summary.txt"
exit "$failed"
