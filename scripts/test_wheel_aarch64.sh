#!/usr/bin/env bash
# Runs python/tests with an aarch64 wheel under qemu: CPython and its libraries out of Debian's arm64 packages, unpacked
# into a folder, numpy and ml_dtypes of PyPI. Installs nothing but qemu-user-static.
#   scripts/test_wheel_aarch64.sh WHEEL [NAME...]   NAME: tests to run, by default those that need numpy only
#   ROTARY_WITH="PACKAGE..."   packages of PyPI beside numpy and ml_dtypes, as jax
#   ROTARY_CACHE=DIR           where the folder is kept (default ~/.cache/rotary)
# What the emulator cannot do is left out: the time of an import, and multiprocessing's semaphores. Exit 77: Debian or
# PyPI cannot be reached.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

packages='python3-minimal libpython3-stdlib libc6 libexpat1 zlib1g libssl3 libffi8 libgcc-s1 libstdc++6 libbz2-1.0
  liblzma5 libsqlite3-0 libuuid1 libcrypt1 libdb5.3 libncursesw6 libtinfo6 libreadline8 libnsl2 libtirpc3'
left_out=(test_import_takes_less_than_20_ms test_multiprocessing)
folder=$cache/aarch64-python

[ $# -gt 0 ] && [ -f "$1" ] || { say "test_wheel_aarch64.sh: give a wheel; see the first lines of $0"; exit 2; }
wheel=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- test_arrays test_rotate test_tables test_config test_process test_program

# unpack_debian: CPython for aarch64 into $folder/root. apt's lists of arm64 are kept apart from this machine's.
unpack_debian() {
  local apt=(apt-get -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists="$folder/lists"
             -o Dir::Cache="$folder/apt" -o APT::Sandbox::User=root) package version
  rm -rf "$folder"
  mkdir -p "$folder/lists/partial" "$folder/apt/archives/partial" "$folder/debs"
  "${apt[@]}" update >"$folder/apt.log" 2>&1 || return 77
  version=$(apt-cache "${apt[@]:1}" show python3-minimal | sed -nE 's/^(Pre-)?Depends:.*(python3[.][0-9]+)-minimal.*/\2/p' | head -n 1)
  (cd "$folder/debs" && "${apt[@]}" download $packages "$version-minimal" "lib$version-minimal" "lib$version-stdlib") \
    >>"$folder/apt.log" 2>&1 || return 77
  for package in "$folder"/debs/*.deb; do dpkg-deb -x "$package" "$folder/root"; done
}

# install_wheels: into $folder/site, for the Python that was unpacked.
install_wheels() {
  local number
  number=$("${python[@]}" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  rm -rf "$folder/site"
  python3 -m pip download -q --only-binary=:all: --python-version "$number" --platform manylinux_2_17_aarch64 \
    --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 \
    -d "$folder/wheels" numpy ml_dtypes ${ROTARY_WITH:-} >&2 || return 77
  python3 - "$folder/site" "$wheel" "$folder"/wheels/*.whl <<'PYTHON'
import sys, zipfile
for wheel in sys.argv[2:]:
    zipfile.ZipFile(wheel).extractall(sys.argv[1])
PYTHON
}

need qemu-user-static python3 python3-venv
[ -x "$folder/root/usr/bin/python3" ] || unpack_debian || exit $?
python=(qemu-aarch64-static -L "$folder/root" -E "PYTHONPATH=$folder/site" "$folder/root/usr/bin/python3")
install_wheels || exit $?
# What the tests start as sys.executable.
printf '#!/bin/sh\nexec' >"$folder/python"
printf ' "%s"' "${python[@]}" >>"$folder/python"
printf ' "$@"\n' >>"$folder/python"
chmod +x "$folder/python"
cd "$root/python/tests"
exec "$folder/python" - "$folder/python" "${left_out[*]}" "$@" <<'PYTHON'
import sys, unittest

sys.executable, left_out = sys.argv[1], sys.argv[2].split()
sys.path.insert(0, ".")


def kept(suite):
    tests = [kept(test) if isinstance(test, unittest.TestSuite) else test for test in suite]
    return unittest.TestSuite(test for test in tests if getattr(test, "_testMethodName", "") not in left_out)


result = unittest.TextTestRunner().run(kept(unittest.defaultTestLoader.loadTestsFromNames(sys.argv[3:])))
sys.exit(not result.wasSuccessful())
PYTHON
