#!/usr/bin/env bash
# Finds or installs the torch that rotary_torch builds on. The last line printed is TORCH_ROOT, for CMake.
#   scripts/torch.sh [--full]    --full: a torch that Python can import, and transformers, to compare with (6 GB)
#   TORCH_ROOT=DIR    an installed torch (site-packages, or the torch folder): used as it is
#   ROTARY_CACHE=DIR  where to install otherwise (default ~/.cache/rotary): three wheels from PyPI, 1.3 GB
# Exit 77: no PyPI.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

torch_version=2.15.0
transformers_version=5.24.0  # another: scripts/sweep.sh --transformers
cuda_version=13.2.86  # the runtime's that libtorch_cpu.so of that wheel is linked with

has_torch() { [ -f "$1/lib/libtorch_cpu.so" ] && [ -f "$1/include/torch/library.h" ]; }

if [ -n "${TORCH_ROOT:-}" ]; then
  has_torch "$TORCH_ROOT/torch" || has_torch "$TORCH_ROOT" ||
    { say "torch.sh: TORCH_ROOT must hold torch/lib/libtorch_cpu.so and torch/include but is $TORCH_ROOT"; exit 1; }
  echo "$TORCH_ROOT"
  exit 0
fi

packages=(--no-deps "torch==$torch_version" "nvidia-cuda-runtime==$cuda_version" "nvidia-cuda-cupti==$cuda_version")
kind=torch
case "${1:-}" in
  "") ;;
  --full)
    packages=("torch==$torch_version" "transformers==$transformers_version" diffusers==0.42.1 safetensors numpy mpmath)
    kind=torch-full ;;
  *) say "torch.sh: unknown option $1; usage: scripts/torch.sh [--full]"; exit 2 ;;
esac
need python3 python3-venv
install_from_pypi "$kind-${torch_version%.*}" "${packages[@]}" ||
  { status=$?; say "torch.sh: set TORCH_ROOT to an installed torch 2.8 or newer"; exit "$status"; }
site=$(echo "$venv"/lib/python3.*/site-packages)
has_torch "$site/torch" || { say "torch.sh: $venv is damaged: remove it and run again"; exit 1; }
echo "$site"
