#!/usr/bin/env bash
# Installs what is missing, configures and builds rotary in Release. The last line printed is the path of the program.
#   scripts/build.sh [--with PART]...     PART: tests, bench, torch, torch-op, cuda
#   torch-op: the op for torch alone, without models, trainer and program; the last line is then librotary_torch.so
set -euo pipefail
. "$(dirname "$0")/lib.sh"

parts=(tests bench torch torch-op cuda)
packages=("${core_packages[@]}")
options=(-DROTARY_TESTS=OFF)
target=all product=bin/rotary
while [ $# -gt 0 ]; do
  case "$1" in
    --with) [ $# -ge 2 ] || { say "build.sh: --with needs a part: ${parts[*]}"; exit 2; }
            part=$2; shift 2 ;;
    --with=*) part=${1#--with=}; shift ;;
    -h|--help) sed -n '2,4s/^# //p' "$0"; exit 0 ;;
    *) say "build.sh: unknown option $1; usage: scripts/build.sh [--with PART], PART one of: ${parts[*]}"; exit 2 ;;
  esac
  case "$part" in
    tests) packages+=("${test_packages[@]}"); options+=(-DROTARY_TESTS=ON) ;;
    bench) options+=(-DROTARY_BENCH=ON) ;;
    torch) packages+=("${torch_packages[@]}")
           torch_root=$("$root/scripts/torch.sh" | tail -n 1)
           options+=(-DROTARY_TORCH=ON -DROTARY_TORCH_MODELS=ON "-DTORCH_ROOT=$torch_root") ;;
    torch-op) [ ${#options[@]} -eq 1 ] && [ $# -eq 0 ] ||
                { say "build.sh: --with torch-op stands alone: --with torch builds the op too"; exit 2; }
              torch_root=$("$root/scripts/torch.sh" | tail -n 1)
              options+=(-DROTARY_TORCH=ON -DROTARY_TORCH_MODELS=OFF "-DTORCH_ROOT=$torch_root")
              target=rotary_torch product=lib/librotary_torch.so ;;
    cuda) if ! find_nvcc >/dev/null; then
            say "build.sh: --with cuda needs nvcc: CUDACXX where it is set, else on PATH, in CUDA_HOME or in" \
                "/usr/local/cuda*"
            exit 1
          fi
          options+=(-DROTARY_CUDA=ON) ;;
    *) say "build.sh: no part named $part; there are: ${parts[*]}"; exit 2 ;;
  esac
done

need "${packages[@]}"
build=${ROTARY_BUILD:-$root/build/release}
[ -n "${CXXFLAGS:-}" ] || options+=("-DCMAKE_CXX_FLAGS=$(gcc_flags "${CXX:-c++}")")
cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release "${options[@]}" >&2
cmake --build "$build" -j "$jobs" --target "$target" >&2
echo "$build/$product"
