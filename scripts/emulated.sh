# Cross builds of the core and programs of other architectures under qemu. Sourced after lib.sh, never run.

# emulated_architecture NAME: sets architecture, compiler, cross_flags and cross_packages for aarch64, riscv64, ppc64le or s390x.
emulated_architecture() {
  local gnu=$1
  cross_flags=
  case "$1" in
    aarch64 | riscv64) ;;
    ppc64le) gnu=powerpc64le ;;
    s390x) cross_flags=-march=z14 ;;  # the first with vectors of floats
    *) return 1 ;;
  esac
  architecture=$1
  compiler=$gnu-linux-gnu-g++
  cross_packages=("g++-$gnu-linux-gnu")
}

# emulated_core FOLDER: builds librotary.a there as a user does, in Release.
emulated_core() {
  local launcher=()
  if command -v ccache >/dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
  cmake -S "$root" -B "$1" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR="$architecture" \
    -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="$cross_flags" "${launcher[@]}" -DCMAKE_BUILD_TYPE=Release \
    -DROTARY_FILES=OFF -DROTARY_TESTS=OFF "${@:2}" >&2
  cmake --build "$1" -j "$jobs" --target rotary >&2
}

# need_emulated QEMU_PACKAGE: the compiler and the emulator, unless there are some.
need_emulated() {
  command -v "$compiler" >/dev/null || need "${cross_packages[@]}"
  command -v "qemu-$architecture${1#qemu-user}" >/dev/null || need "$1"
}
