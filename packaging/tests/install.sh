#!/usr/bin/env bash
# Installs into a scratch prefix, moves it, and builds the consumers against it by find_package and by pkg-config, with
# a kernel where rotary was built with CUDA; then the program of the README, whose output must be the one printed there.
#   install.sh SOURCE_DIR BUILD_DIR CXX [FLAGS...]
set -euo pipefail
source=$1 build=$2 cxx=$3
shift 3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cmake --install "$build" --prefix "$scratch/first" >/dev/null
mv "$scratch/first" "$scratch/prefix"
"$scratch/prefix/bin/rotary" --version
for file in bash-completion/completions/rotary man/man1/rotary.1; do
  grep -q inspect "$scratch/prefix/share/$file" || { printf 'not installed: share/%s\n' "$file"; exit 1; }
done

expect() { [ "$2" = "$3" ] || { printf '%s: expected\n%s\nbut got\n%s\n' "$1" "$2" "$3"; exit 1; }; }
wanted='8 pairs, q[0] = -1.131112'

# expect_gpu WHAT PROGRAM: without a GPU it must say so and end well.
case $(sed -n 's/^ROTARY_CUDA:BOOL=//p' "$build/CMakeCache.txt") in
  ON | on | TRUE | YES | 1) cuda=ON ;;
  *) cuda=OFF ;;
esac
expect_gpu() {
  local output
  output=$("$2")
  case "$cuda $output" in
    "OFF built 0, devices none, CUDA: [gpu] rotary was built without CUDA: "*) ;;
    "ON built 1, devices none, CUDA: "?* | "ON built 1, devices some, the CPU's "*) ;;
    *) printf '%s: with ROTARY_CUDA=%s not expected:\n%s\n' "$1" "$cuda" "$output"; exit 1 ;;
  esac
}
nvcc=() kernel=()
if [ "$cuda" = ON ] && [ $# -eq 0 ]; then
  compiler() { sed -n "s/^set($1 \"\(.*\)\")$/\1/p" "$build"/CMakeFiles/*/CMakeCUDACompiler.cmake | tail -n 1; }
  host=$(compiler CMAKE_CUDA_HOST_COMPILER)
  nvcc=("$(compiler CMAKE_CUDA_COMPILER)" -arch=sm_80 ${host:+-ccbin "$host"})
  kernel=(-DCONSUMER_CUDA=ON -DCMAKE_CUDA_COMPILER="${nvcc[0]}" -DCMAKE_CUDA_ARCHITECTURES=80
          ${host:+-DCMAKE_CUDA_HOST_COMPILER="$host"})
fi

# configure FOLDER OPTION...: the consumers by find_package.
configure() {
  cmake -S "$source/packaging/tests/consumer" -B "$scratch/$1" -DCMAKE_PREFIX_PATH="$scratch/prefix" \
        -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS="$flags" "${@:2}"
}
flags=$*
configure consumer "${kernel[@]}" >/dev/null
cmake --build "$scratch/consumer" >/dev/null
expect find_package "$wanted" "$("$scratch/consumer/consumer")"
expect_gpu "find_package, gpu" "$scratch/consumer/consumer_gpu"
[ ${#nvcc[@]} -eq 0 ] || expect_gpu "find_package, a kernel" "$scratch/consumer/consumer_kernel"

# Where there is no toolkit, only the component gpu of a rotary with CUDA is missing.
if [ "$cuda" = ON ]; then
  if configure bare -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON >"$scratch/bare.log" 2>&1 ||
     ! tr -s '[:space:]' ' ' <"$scratch/bare.log" | grep -q "CMake finds no CUDA toolkit"; then
    cat "$scratch/bare.log"
    exit 1
  fi
  configure bare -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON -DCONSUMER_COMPONENTS=files >/dev/null
fi

libdir=$(dirname "$(find "$scratch/prefix" -name rotary.pc)")
export PKG_CONFIG_PATH=$libdir
# shellcheck disable=SC2046
"$cxx" -std=c++20 "$@" "$source/packaging/tests/consumer/main.cpp" -o "$scratch/by_pc" \
  $(pkg-config --cflags --libs rotary_files rotary)
expect pkg-config "$wanted" "$("$scratch/by_pc")"
# shellcheck disable=SC2046
"$cxx" -std=c++20 "$@" "$source/packaging/tests/consumer/gpu.cpp" -o "$scratch/gpu" \
  $(pkg-config --cflags --libs rotary_gpu)
expect_gpu "pkg-config, gpu" "$scratch/gpu"
if [ ${#nvcc[@]} -ne 0 ]; then
  # shellcheck disable=SC2046
  "${nvcc[@]}" -std=c++20 "$source/packaging/tests/consumer/kernel.cu" -o "$scratch/kernel" \
    $(pkg-config --cflags --libs rotary_gpu)
  expect_gpu "pkg-config, a kernel" "$scratch/kernel"
fi

# In C, and as a subproject, whole or the core alone: an engine's variables stay, its programs keep their standards, and
# nothing is installed.
if [ $# -eq 0 ]; then
  cmake -S "$source/packaging/tests/c" -B "$scratch/c" -DCMAKE_PREFIX_PATH="$scratch/prefix" >/dev/null
  cmake --build "$scratch/c" >/dev/null
  "$scratch/c/consumer_c"
  for standard in "gcc -std=c99" "g++ -std=c++11 -xc++"; do
    # shellcheck disable=SC2046,SC2086
    $standard -Wpedantic -Werror "$source/packaging/tests/c/main.c" -xnone \
      $(pkg-config --cflags --libs rotary) -o "$scratch/c/by_pc"
    "$scratch/c/by_pc"
  done
  for rotary in "$source" "$source/core"; do
    engine=$scratch/engine-of-${rotary##*/}
    cmake -S "$source/packaging/tests/engine" -B "$engine" -DENGINE_ROTARY="$rotary" \
          -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
    sed -n 's/^ *"command": "\(.*engine_c.*\)",$/\1/p' "$engine/compile_commands.json" |
      sed 's/\\\(.\)/\1/g' >"$engine/commands"  # without the escapes of JSON
    expect "programs of the engine" 2 "$(wc -l <"$engine/commands")"
    (cd "$engine" && mkdir -p CMakeFiles/engine_c{,17}.dir/Unity && bash -e commands)
    cmake --install "$engine" --prefix "$scratch/polite" >/dev/null
    [ ! -e "$scratch/polite" ] || { printf 'a subproject installs something\n'; exit 1; }
  done
fi

# The first ```cpp block of the README is a whole program; the first ```text block after it is what it prints.
awk '/^```cpp$/ && !seen {on=1; seen=1; next} /^```$/ {on=0} on' "$source/README.md" >"$scratch/readme.cpp"
awk '/^```cpp$/ {seen=1} /^```text$/ && seen && !done {on=1; next} /^```$/ && on {on=0; done=1} on' \
  "$source/README.md" >"$scratch/readme.txt"
[ -s "$scratch/readme.cpp" ] && [ -s "$scratch/readme.txt" ]
# shellcheck disable=SC2046
"$cxx" -std=c++20 "$@" "$scratch/readme.cpp" -o "$scratch/readme" $(pkg-config --cflags --libs rotary)
expect README "$(cat "$scratch/readme.txt")" "$("$scratch/readme")"
echo "installed, moved, found, and the README's program prints what the README says"
