# Functions that the scripts share. Sourced, never run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
jobs=${ROTARY_JOBS:-$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN)}  # macOS has no nproc

unset CMAKE_GENERATOR  # several scripts configure one folder

say() { printf '%s\n' "$*" >&2; }

# in_empty_folder COMMAND: runs it in a fresh folder, which is removed afterwards; returns its status.
in_empty_folder() {
  local folder status=0
  folder=$(mktemp -d)
  (cd "$folder" && "$@") || status=$?
  rm -rf "$folder"
  return "$status"
}

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
  local venv
  export ZIG_GLOBAL_CACHE_DIR=$cache/zig-cache ZIG_LOCAL_CACHE_DIR=$cache/zig-cache
  need python3 python3-venv
  install_from_pypi "zig-$zig_version" --no-deps "ziglang==$zig_version" || return
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

# zig_tools FOLDER FLAGS [BEFORE]: programs in FOLDER that compile by zig with FLAGS, and the options by which CMake
# finds them into the array options. BEFORE is a line of shell that goes before the compiler.
zig_tools() {
  local folder=$1 flags=$2 before=${3:-} tool
  mkdir -p "$folder"
  for tool in c++ cc; do
    printf '#!/bin/sh\n%s\nexec "%s" %s "$@"\n' "$before" "$zig" "$tool $flags" >"$folder/$tool.new"
  done
  for tool in ar ranlib rc; do printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"$folder/$tool.new"; done
  for tool in c++ cc ar ranlib rc; do  # replaced only if changed: CMake would configure anew
    cmp -s "$folder/$tool.new" "$folder/$tool" && rm "$folder/$tool.new" || mv "$folder/$tool.new" "$folder/$tool"
    chmod +x "$folder/$tool"
  done
  options=(-DCMAKE_CXX_COMPILER="$folder/c++" -DCMAKE_C_COMPILER="$folder/cc"
           -DCMAKE_AR="$folder/ar" -DCMAKE_RANLIB="$folder/ranlib" -DCMAKE_RC_COMPILER="$folder/rc"
           -DCMAKE_CXX_COMPILER_AR="$folder/ar" -DCMAKE_CXX_COMPILER_RANLIB="$folder/ranlib")
}

# runner_of RUNNER: the command that runs a program of that kind, into the array run; returns 1 where there is none.
runner_of() {
  run=()
  case "$1" in
    - | "qemu-$(uname -m)") ;;
    none) return 1 ;;
    qemu-i386) [ "$(uname -m)" = x86_64 ] || { need qemu-user-static; run=(qemu-i386-static); } ;;
    qemu-*) need qemu-user-static; run=("$1-static") ;;
    wine)
      [ "$(uname -m)" = x86_64 ] || return 1
      need wine64
      run=(env WINEDEBUG=-all WINEPREFIX="$cache/wine" "$(command -v wine64 || echo /usr/lib/wine/wine64)") ;;
    node)
      command -v node >/dev/null || need nodejs
      run=(node --no-warnings "$root/core/tests/bits/run_wasm.mjs") ;;
  esac
}

# find_mirror: prints the address of the Debian archive that apt uses here.
find_mirror() {
  if [ -n "${ROTARY_MIRROR:-}" ]; then echo "$ROTARY_MIRROR"; return; fi
  [ -n "$(apt-get indextargets "Created-By: Packages")" ] || apt-get update >/dev/null 2>&1 || true
  apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(LABEL)' "Created-By: Packages" |
    awk '!found && $1 ~ /^https?:/ && $2 == "main" && $3 == "Debian" && NF == 3 { print $1; found = 1 }
         END { exit !found }'  # reads to the end, else apt-get may die of SIGPIPE
}

# materials BUILD ARGUMENT...: packaging/materials.py, which asks what zig compiled in the folder BUILD.
materials() {
  ROTARY_ZIG=${zig%/*} ROTARY_ZIG_VERSION=$zig_version \
    ROTARY_JSON=$1/_deps/nlohmann_json-src/nlohmann_json/include python3 "$root/packaging/materials.py" "${@:2}"
}

core_packages=(g++ make cmake pkg-config nlohmann-json3-dev libcli11-dev)
test_packages=(libgtest-dev libmpfr-dev libgmp-dev git python3)
torch_packages=(libgloo-dev ca-certificates)  # the headers of torch's Gloo; pip's certificates
