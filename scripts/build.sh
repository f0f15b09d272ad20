#!/usr/bin/env bash
# Installs what is missing, configures and builds rotary in Release. The last line printed is the path of the program.
#   scripts/build.sh [--with PART]...     PART: tests, bench, torch, cuda
set -euo pipefail
. "$(dirname "$0")/lib.sh"

parts=(tests bench torch cuda)
packages=("${core_packages[@]}")
options=(-DROTARY_TESTS=OFF)
while [ $# -gt 0 ]; do
  case "$1" in
    --with) [ $# -ge 2 ] || { say "build.sh: --with needs a part: ${parts[*]}"; exit 2; }
            part=$2; shift 2 ;;
    --with=*) part=${1#--with=}; shift ;;
    -h|--help) sed -n '2,3s/^# //p' "$0"; exit 0 ;;
    *) say "build.sh: unknown option $1; usage: scripts/build.sh [--with PART], PART one of: ${parts[*]}"; exit 2 ;;
  esac
  case "$part" in
    tests) packages+=("${test_packages[@]}"); options+=(-DROTARY_TESTS=ON) ;;
    bench) packages+=(libbenchmark-dev); options+=(-DROTARY_BENCH=ON) ;;
    torch) packages+=("${torch_packages[@]}")
           torch_root=$("$root/scripts/torch.sh" | tail -n 1)
           options+=(-DROTARY_TORCH=ON "-DTORCH_ROOT=$torch_root") ;;
    cuda) find_nvcc >/dev/null || { say "build.sh: --with cuda needs nvcc: CUDACXX where it is set, else on PATH, in CUDA_HOME or in /usr/local/cuda*"; exit 1; }
          options+=(-DROTARY_CUDA=ON) ;;
    *) say "build.sh: no part named $part; there are: ${parts[*]}"; exit 2 ;;
  esac
done

need "${packages[@]}"
build=${ROTARY_BUILD:-$root/build/release}
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release "${options[@]}" >&2
cmake --build "$build" -j "$jobs" >&2
echo "$build/bin/rotary"
