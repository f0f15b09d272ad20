# Functions that the scripts share. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${ROTARY_JOBS:-$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)}  # macOS has no nproc

say() { printf '%s\n' "$*" >&2; }

# gcc_flags COMPILER: prints flags that change no object, for g++ alone: it is done a tenth sooner where it collects no
# garbage before it holds 600 MB, for which a machine must have 2 GB for each job.
gcc_flags() {
  local memory
  memory=$(awk '/^MemTotal:/ { print $2 }' /proc/meminfo 2>/dev/null || true)
  [ "${memory:-0}" -ge $((jobs * 2000000)) ] || return 0
  case "$("$1" --version 2>/dev/null)" in *"Free Software"*) echo "--param ggc-min-heapsize=600000" ;; esac
}

# need PACKAGE...: installs the Debian or Ubuntu packages that are missing, as root or with sudo. Callers wait for each
# other, since apt refuses a second.
need() {
  local missing=() package
  command -v apt-get >/dev/null || {
    say "scripts: no apt-get here; these Debian packages, or what your system calls them, must be there: $*"
    return 0
  }
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | cut -c1-2)" = ii ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { say "scripts: not root and no sudo; install these first: ${missing[*]}"; exit 1; }
    as_root=(sudo)
  fi
  say "installing: ${missing[*]}"
  local log lock start=$SECONDS
  log=$(mktemp)
  lock=/tmp/rotary-apt-$(id -u).lock
  if ! { flock 9 && "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
         apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 9>"$lock"; then
    tail -n 20 "$log" >&2
    say "scripts: apt-get could not install ${missing[*]} (whole log: $log)"
    exit 1
  fi
  rm -f "$log"
  say "installed in $((SECONDS - start)) s"
}

# Clang, and its sanitizers of the version that is installed: clang only recommends them.
need_sanitizers() {
  need clang
  [ -f "$(clang++ -print-resource-dir)/include/sanitizer/asan_interface.h" ] ||
    need "libclang-rt-$(clang++ -dumpversion | cut -d. -f1)-dev"
}

# find_nvcc: prints where nvcc is, as gpu/cmake/cuda.cmake finds it; fails where there is none.
find_nvcc() {
  local candidate
  if [ -n "${CUDACXX:-}" ]; then command -v "$CUDACXX"; return; fi
  for candidate in "$(command -v nvcc || true)" "${CUDA_HOME:-}/bin/nvcc" "${CUDA_PATH:-}/bin/nvcc" \
                   /usr/local/cuda*/bin/nvcc /opt/cuda/bin/nvcc; do
    if [ -x "$candidate" ]; then echo "$candidate"; return 0; fi
  done
  return 1
}

cache=${ROTARY_CACHE:-$HOME/.cache/rotary}
zig_version=0.17.1

# install_zig: zig from PyPI, into a folder of its own, and its path into $zig; returns 77 where PyPI cannot be reached.
install_zig() {
  local venv=$cache/zig-$zig_version log
  export ZIG_GLOBAL_CACHE_DIR=$cache/zig-cache ZIG_LOCAL_CACHE_DIR=$cache/zig-cache
  zig=$(echo "$venv"/lib/python3.*/site-packages/ziglang/zig)
  if [ -x "$zig" ]; then return; fi
  need python3 python3-venv
  say "installing ziglang $zig_version into $venv"
  log=$(mktemp)
  if ! { python3 -m venv --clear "$venv" &&
         "$venv/bin/pip" install --no-deps "ziglang==$zig_version"; } >"$log" 2>&1; then
    tail -n 3 "$log" >&2
    say "scripts: could not install ziglang $zig_version from PyPI (whole log: $log)"
    return 77
  fi
  rm -f "$log"
  zig=$(echo "$venv"/lib/python3.*/site-packages/ziglang/zig)
}

# install_from_pypi NAME PACKAGE...: a virtual environment with these packages, and its path into $venv; returns 77
# where PyPI cannot be reached.
install_from_pypi() {
  local log
  venv=$cache/$1
  if [ "$(cat "$venv/packages" 2>/dev/null)" = "${*:2}" ]; then return; fi
  say "installing ${*:2} into $venv"
  log=$(mktemp)
  if ! { python3 -m venv --clear "$venv" && "$venv/bin/pip" install "${@:2}"; } >"$log" 2>&1; then
    tail -n 3 "$log" >&2
    say "scripts: PyPI has not given us ${*:2} (whole log: $log)"
    return 77
  fi
  rm -f "$log"
  echo "${*:2}" >"$venv/packages"
}

core_packages=(g++ make cmake pkg-config nlohmann-json3-dev libcli11-dev)
test_packages=(libgtest-dev libmpfr-dev libgmp-dev git python3)
torch_packages=(libgloo-dev ca-certificates)  # the headers of torch's Gloo; pip's certificates
