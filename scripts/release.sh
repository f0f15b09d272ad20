#!/usr/bin/env bash
# Makes all files of a release from a clean tree, each from the source archive, and tests those that can run here.
#   scripts/release.sh VERSION [--twice] [KIND...]   default: all kinds, into dist/
#   KIND: one-file, debian, linux-x86_64, linux-aarch64 (the program, static), or a PLATFORM of scripts/wheel.sh
#   --twice            all of it once more, in another folder: every file must be the same, byte for byte
#   ROTARY_URL=URL     the folder from which the files will be had, for the recipes (default https://rotary.example)
#   ROTARY_DIST=DIR    where the files go, an empty folder or an older release (default dist)
#   ROTARY_RELEASE=DIR where it builds (default build/release-files)
#   ROTARY_CACHE=DIR   what PyPI and Debian give: ziglang, tools for wheels, a Python for AArch64, one for musl
# VERSION must be the project's, and CHANGELOG.md must have a section for it, which becomes the notes. All times in the
# files are the commit's (SOURCE_DATE_EPOCH). docs/release.md says what each file is, and how a person publishes them.
# The last line is "release VERSION: N files in DIR"; lines before it say what could not run here. Exit 77: no PyPI.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

platforms=(manylinux_2_17_x86_64 manylinux_2_17_aarch64 musllinux_1_2_x86_64 musllinux_1_2_aarch64 macosx_11_0_arm64
           macosx_11_0_x86_64 win_amd64)
kinds=(one-file debian "${platforms[@]}" linux-x86_64 linux-aarch64)  # in this order: the last are made of wheels
dist=$(realpath -m "${ROTARY_DIST:-$root/dist}")
work=$(realpath -m "${ROTARY_RELEASE:-$root/build/release-files}")
url=${ROTARY_URL:-https://rotary.example}

fail() { say "release.sh: $*"; exit 1; }

# pack FOLDER NAME [FORMAT]: NAME.tar.gz in $made of a folder, of the same bytes whoever makes it and when.
pack() {
  tar -C "${1%/*}" --sort=name --format=ustar --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
      --mode=u+rw,go=rX --transform="s,^${1##*/},$2," -cf - "${1##*/}" | gzip -9n >"$made/$2.tar.gz"
}

# The makers: each of them builds in $source, the unpacked source archive, and leaves its files in $made.

make_source() {
  git -C "$root" archive --format=tar --prefix="rotary-$version/" HEAD | gzip -9n >"$made/rotary-$version.tar.gz"
  rm -rf "$source"
  mkdir -p "${source%/*}"
  tar -C "${source%/*}" -xzf "$made/rotary-$version.tar.gz"
}

make_one_file() {
  "$source/scripts/amalgamate.sh" "$source/build/one-file" --config
  cp "$source/LICENSE" "$source/build/one-file/"
  pack "$source/build/one-file" "rotary-$version-one-file"
}

make_debian() { "$source/scripts/packages.sh" | xargs -d '\n' cp -t "$made"; }

# make_wheels PLATFORM: the package's and the program's.
make_wheels() { ROTARY_WHEELS=$made "$source/scripts/wheel.sh" "$1" | tail -n 2 >&2; }

# make_program PROCESSOR: the static program of the wheel for musl, with its data, man page and completion.
make_program() {
  local build=$source/build/wheel/build-musllinux_1_2_$1 name=rotary-$version-linux-$1
  [ -x "$build/bin/rotary" ] || fail "linux-$1 is made of musllinux_1_2_$1: name that too, before it"
  rm -rf "$source/build/$name"
  cmake --build "$build" --target rotary_shell_files >&2
  cmake --install "$build" --component program --prefix "$source/build/$name" >&2
  cp "$source/LICENSE" "$source/build/$name/"
  materials "$build" licences "$name" >"$source/build/$name/LICENCES-OF-PARTS"
  pack "$source/build/$name" "$name"
}

# make_texts: the notes, the recipes for conda-forge and Homebrew, the bill of materials, the sums.
make_texts() {
  local build recipe sum
  notes >"$made/notes-$version.md"
  read -r sum _ <<<"$(sha256sum "$made/rotary-$version.tar.gz")"
  for recipe in conda/recipe.yaml homebrew/rotary.rb; do
    sed "s,ROTARY_URL,$url,; s,ROTARY_SHA256,$sum," "$source/packaging/$recipe" >"$made/${recipe##*/}"
  done
  for build in "$source"/build/wheel/build-*; do break; done  # any: the headers of all are the same
  materials "$build" bill "$made" "$version" >"$work/bill.json"
  mv "$work/bill.json" "$made/rotary-$version.cdx.json"
  (cd "$made" && sha256sum -- *) >"$work/sums"
  mv "$work/sums" "$made/SHA256SUMS"
}

# notes: the section of CHANGELOG for the version, which may still say that it is not released.
notes() {
  awk -v version="$version" '
    /^## / { on = $2 == version || $3 == version || $3 == version ","; next }
    on && (NF || seen) { seen = 1; print }' "$root/CHANGELOG.md"
}

# The tests: each in a fresh folder $fresh, of at most 60 seconds. not_run says what cannot run on this machine.

not_run() { say "release.sh: not run here: $*"; }
smoke() { in_empty_folder timeout 60 "$@" >&2 || fail "it fails: $*"; }
smoke_program() { smoke "$source/packaging/tests/smoke.sh" "$source" "$@"; }
smoke_package() { smoke "$@" "$source/packaging/tests/smoke.py" "$source"; }

# install_debian_python ARCHITECTURE FOLDER: Debian 12's Python of another architecture, unpacked only, for an emulator;
# returns 1 where this is not root, as debootstrap wants, or not Debian.
install_debian_python() {
  local debs mirror log deb
  [ ! -x "$2/usr/bin/python3.11" ] || return 0
  [ "$(id -u)" -eq 0 ] && mirror=$(find_mirror) || return 1
  need debootstrap debian-archive-keyring
  debs=$(mktemp -d) log=$(mktemp)
  if ! debootstrap --download-only --arch="$1" --variant=minbase --include=python3 bookworm "$debs" "$mirror" \
         >"$log" 2>&1; then
    tail -n 3 "$log" >&2
    return 1
  fi
  rm -rf "$2" "$2.new"
  for deb in "$debs"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$deb" "$2.new"; done
  rm -rf "$debs" "$log"
  mv "$2.new" "$2"
}

# install_wheels PLATFORM [PACKAGE PLATFORM...]: its two wheels into $fresh/site, as a pip of that platform would; and
# a package that PyPI has for the platforms.
install_wheels() {
  local options=(-q --python-version 3.11 --only-binary=:all: --no-deps --no-warn-script-location
                 --target "$fresh/site")
  "$cache/wheel-tools/bin/pip" install "${options[@]}" --platform "$1" "$made"/rotary{,_cli}-"$version"-*"$1"*.whl >&2
  [ $# -eq 1 ] || "$cache/wheel-tools/bin/pip" install "${options[@]}" "${@:3}" "$2" >&2
}

test_manylinux_2_17_x86_64() {
  [ "$(uname -m)" = x86_64 ] || { not_run "$1"; return; }
  python3 -m venv "$fresh/venv"
  "$fresh/venv/bin/pip" install -q numpy >&2
  "$fresh/venv/bin/pip" install -q --no-deps "$made"/rotary{,_cli}-"$version"-*"$1"*.whl >&2
  smoke_package "$fresh/venv/bin/python" -I
  smoke_program "$fresh/venv/bin/rotary"
}

test_manylinux_2_17_aarch64() {
  local folder=$cache/python-arm64
  install_debian_python arm64 "$folder" || { not_run "$1, for which root and debootstrap are needed"; return; }
  runner_of qemu-aarch64
  [ ${#run[@]} -eq 0 ] || run+=(-L "$folder")
  install_wheels "$1" numpy --platform manylinux_2_17_aarch64 --platform manylinux_2_28_aarch64
  smoke_package env PYTHONPATH="$fresh/site" "${run[@]}" "$folder/usr/bin/python3.11"
  smoke_program "${run[@]}" "$fresh/site/bin/rotary"
}

# test_program KIND RUNNER: the program of a wheel whose package has no Python here.
test_program() {
  not_run "the package of $1: no Python of that kind"
  runner_of "$2" || { not_run "the program of $1"; return; }
  install_wheels "$1"
  smoke_program "${run[@]}" "$fresh"/site/bin/rotary*
}
test_musllinux_1_2_x86_64() { test_program "$1" qemu-x86_64; }
test_musllinux_1_2_aarch64() { test_program "$1" qemu-aarch64; }
test_win_amd64() { test_program "$1" wine; }
test_macosx_11_0_arm64() { install_wheels "$1"; not_run "$1"; }
test_macosx_11_0_x86_64() { install_wheels "$1"; not_run "$1"; }

# test_linux KIND PROCESSOR
test_linux() {
  runner_of "qemu-$2"
  tar -C "$fresh" -xzf "$made/rotary-$version-$1.tar.gz"
  smoke_program "${run[@]}" "$fresh/rotary-$version-$1/bin/rotary"
}
test_linux-x86_64() { test_linux "$1" x86_64; }
test_linux-aarch64() { test_linux "$1" aarch64; }

test_one-file() {
  tar -C "$fresh" -xzf "$made/rotary-$version-one-file.tar.gz"
  cd "$fresh/rotary-$version-one-file"
  g++ -std=c++20 -I . -c rotary.cpp
  gcc -std=c99 -I . "$source/core/tests/one_rotation.c" rotary.o -lstdc++ -lm -o "$fresh/program"
  "$fresh/program" 2>/dev/null || fail "the one file does not rotate"
}

# scripts/bare.sh release installs the packages as apt does.
test_debian() {
  local package
  say "release.sh: the packages are for $(. /etc/os-release && echo "$PRETTY_NAME") and what is newer"
  for package in "$made"/*.deb; do dpkg-deb -x "$package" "$fresh/root"; done
  smoke_program env LD_LIBRARY_PATH="$(echo "$fresh"/root/usr/lib/*/)" "$fresh/root/usr/bin/rotary"
}

# make_kind KIND: makes and, the first time, tests it.
make_kind() {
  local start=$SECONDS
  case "$1" in
    one-file) make_one_file ;;
    debian) make_debian ;;
    linux-*) make_program "${1#linux-}" ;;
    *) make_wheels "$1" ;;
  esac
  if [ "$made" = "$work/first/dist" ]; then
    fresh=$work/smoke
    rm -rf "$fresh"
    mkdir -p "$fresh"
    ("test_$1" "$1")
  fi
  say "release.sh: $1 in $((SECONDS - start)) s"
}

# make_all NAME: everything into $made, built in the folder NAME of $work.
make_all() {
  made=$work/$1/dist source=$work/$1/rotary-$version
  rm -rf "$made"
  mkdir -p "$made"
  make_source
  for kind in "${wanted[@]}"; do make_kind "$kind"; done
  make_texts
}

# check_paths: no file holds the path of this build, of a temporary folder or of the compiler, which differ each time.
check_paths() {
  local file
  rm -rf "$work/opened"
  for file in "$made"/*; do
    mkdir -p "$work/opened/${file##*/}"
    case "$file" in
      *.whl) python3 -m zipfile -e "$file" "$work/opened/${file##*/}" ;;
      *.deb) dpkg-deb -x "$file" "$work/opened/${file##*/}" ;;
      *.tar.gz) tar -C "$work/opened/${file##*/}" -xzf "$file" ;;
    esac
  done
  ! grep -rlF -e "$work" -e "$cache" -e "${TMPDIR:-/tmp}/tmp" "$work/opened" >&2 ||
    fail "these files name folders of this machine"
}

twice=no version="" wanted=()
for argument in "$@"; do
  case "$argument" in
    --twice) twice=yes ;;
    -*) fail "unknown option $argument; usage: scripts/release.sh VERSION [--twice] [KIND...]" ;;
    *) if [ -z "$version" ]; then version=$argument
       elif [[ " ${kinds[*]} " == *" $argument "* ]]; then wanted+=("$argument")
       else fail "no kind named $argument; there are: ${kinds[*]}"
       fi ;;
  esac
done
[ -n "$version" ] || fail "it needs a version; usage: scripts/release.sh VERSION [--twice] [KIND...]"
[ ${#wanted[@]} -gt 0 ] || wanted=("${kinds[@]}")
project=$(sed -nE 's/^#define ROTARY_VERSION "(.*)"$/\1/p' "$root/core/include/rotary/version.h")
[ "$version" = "$project" ] || fail "the version must be that of rotary/version.h, $project, but is $version"
changes=$(git -C "$root" status --porcelain) || fail "it needs git, and a checkout of rotary: $root"
[ -z "$changes" ] || fail "the tree must be clean but has changes: git status names them"
[ -n "$(notes)" ] || fail "CHANGELOG.md must have a section '## $version' but has none"
mkdir -p "$dist"
sums=$dist/SHA256SUMS
[ -z "$(ls -A "$dist")" ] || grep -qsE '  rotary-[0-9.]+\.tar\.gz$' "$sums" ||
  fail "$dist must be empty or hold a release, since what its SHA256SUMS names is removed"
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH LC_ALL=C.UTF-8 TZ=UTC
umask 022

need "${core_packages[@]}" git python3 python3-venv dpkg-dev file
install_zig || exit $?
mkdir -p "$work"
make_all first
check_paths
if [ "$twice" = yes ]; then
  make_all the-second-time
  diff -r "$work/first/dist" "$made" >&2 || fail "two builds differ: $work/first/dist and $made"
  say "release.sh: all files are the same the second time"
fi
[ ! -f "$sums" ] || (cd "$dist" && sed 's/^[0-9a-f]*  //' SHA256SUMS | grep -v / | xargs -d '\n' rm -f -- SHA256SUMS)
cp "$work/first/dist"/* "$dist/"
echo "release $version: $(ls "$dist" | wc -l) files in $dist"
