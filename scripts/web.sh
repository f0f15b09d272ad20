#!/usr/bin/env bash
# Builds the explorer: the whole program as WebAssembly inside one page, which works offline and from a file.
#   scripts/web.sh DIR    writes DIR/rotary.html
#   ROTARY_CACHE=DIR   where PyPI's ziglang goes, 100 MB, and what zig builds (default ~/.cache/rotary)
#   ROTARY_WEB=DIR     where to build (default build/web)
# Exit 77: no PyPI. The first run takes some 4 minutes on one core.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { say "usage: scripts/web.sh DIR"; exit 2; }
out=$1
build=${ROTARY_WEB:-$root/build/web}
need make cmake nlohmann-json3-dev libcli11-dev python3
install_zig || exit $?
zig_lib=$(dirname "$zig")/lib

# The same compiler for libc++ and the program: a flag that changes the code's form must be in both.
zig_tools "$build/tools" "-target wasm32-wasi -Os -mexception-handling -fwasm-exceptions \
  -U_LIBCPP_HAS_FILESYSTEM -D_LIBCPP_HAS_FILESYSTEM=1"
options+=(-DCMAKE_SYSTEM_NAME=WASI -DCMAKE_SYSTEM_PROCESSOR=wasm32 -DCMAKE_BUILD_TYPE=Release
          -DCMAKE_C_FLAGS_RELEASE=-DNDEBUG -DCMAKE_CXX_FLAGS_RELEASE=-DNDEBUG)
export CCACHE_COMPILERCHECK=content  # the compiler is a script written above, whose time says nothing
if command -v ccache >/dev/null; then options+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
cmake -S "$root/web/cxx" -B "$build/cxx" "${options[@]}" -DZIG_LIB="$zig_lib" >&2
cmake --build "$build/cxx" -j "$jobs" >&2
# A stack of 1 MiB: an instance begins with all of it. Without warnings: a size_t has 32 bits here, of which clang warns
# hundreds of times, and sources that are compiled together shadow each other.
wasi="-D_WASI_EMULATED_SIGNAL -D_WASI_EMULATED_GETPID -include \"$root/web/wasi.h\""
cmake -S "$root" -B "$build/program" "${options[@]}" -DROTARY_WEB=ON -DROTARY_BITS=ON -DROTARY_TESTS=OFF \
  -DROTARY_INSTALL=OFF -DCMAKE_CXX_FLAGS="-w $wasi" \
  -DCMAKE_EXE_LINKER_FLAGS="-nostdlib++ -Wl,-z,stack-size=1048576 -Wl,--gc-sections -s" \
  -DCMAKE_CXX_STANDARD_LIBRARIES="\"$build/cxx/libcxx.a\" -lwasi-emulated-signal -lwasi-emulated-getpid" >&2
cmake --build "$build/program" -j "$jobs" --target rotary_web >&2
mkdir -p "$out"
python3 "$root/web/join.py" "$build/program/web/rotary.wasm" "$out/rotary.html"
