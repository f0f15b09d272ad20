#!/usr/bin/env bash
# Installs what is missing, builds and tests. Without arguments what a user runs: release and wheel. The stages:
#   release   the libraries and the program as a user builds them, all tests, the kernels for GPUs on the CPU's
#             emulator, the install tree and its consumers
#   asan      the same tests by clang, under AddressSanitizer and UndefinedBehaviorSanitizer
#   clang     the core, optimised by clang, each source compiled alone, with the portable kernels, and the tests of the
#             values that it computes
#   cuda      rotary_gpu by nvcc: its PTX is read, its install tree consumed, the tests run where there is a GPU;
#             skipped without nvcc
#   bits      the core by $CXX, and the committed hash of what it computes: needs CMake and a compiler only, and so runs
#             on macOS and, in MSYS2, on Windows
#   neon      the kernels as AArch64 programs under qemu
#   s390x     the same for a big-endian machine, where the portable kernels are the best
#   cross     the core by clang, for 32-bit x86 and WebAssembly: the committed hash (scripts/cross.sh --quick);
#             skipped without PyPI
#   wheel     the wheels of the Python package and of the program, from release's objects, in a fresh environment with
#             numpy; skipped without PyPI
#   python    the same wheel beside several versions of torch, transformers and JAX (12 GB), by several Pythons
#   torch     rotary_torch, on three wheels from PyPI (1.3 GB) or the torch that TORCH_ROOT names; skipped without PyPI
#   bare      README's two commands in a bare Debian 13 (scripts/bare.sh), which has another compiler and none of this
#             machine's packages; skipped where this is not root or not Debian
#   web       the explorer (scripts/web.sh) in headless Chromium beside the native program; skipped without PyPI
#   site      the site (scripts/site.sh): its links, its pages in headless Chromium; skipped without PyPI
#   fuzz      a minute of libFuzzer on each target (scripts/fuzz.sh), under AddressSanitizer and
#             UndefinedBehaviorSanitizer
#   core, gpu, files, tools, cli    a part alone, with what stands below it: its tests, of an own build
#   parity    the same on a whole torch beside transformers (6 GB): the op from Python, the models against transformers
#   scripts/test.sh [STAGE]...     default: release wheel; .ci/run: also asan, cuda, neon, torch and bare
#   ROTARY_AGAIN=1  release and wheel without what another compiler or system finds nothing new in, as the stage bare
#                   runs them: the tests labelled `once`, and the checkers of the Python package's types
# The last line printed is "N passed, N failed, N skipped".
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || set -- release wheel
[ "$*" = bits ] || need "${core_packages[@]}" "${test_packages[@]}"

passed=0 failed=0 skipped=0

# Warnings are errors with the compilers that the project is kept clean with; newer ones invent new warnings.
werror() { case "$1-$("$1" -dumpversion | cut -d. -f1)" in g++-12 | clang++-14) echo ON ;; *) echo OFF ;; esac; }

# run_stage NAME CXX CMAKE_OPTION...: configures, builds and tests build/test-NAME, and adds up what ctest says.
# build_targets and ctest_options narrow that down, folder names another stage whose objects serve.
run_stage() {
  local name=$1 cxx=$2 build=$root/build/test-${folder:-$1} log status=0
  shift 2
  set -- "$@" "-DCMAKE_CXX_FLAGS=$(gcc_flags "$cxx")"
  say "== $name"
  cmake -S "$root" -B "$build" -DCMAKE_CXX_COMPILER="$cxx" -DROTARY_TESTS=ON -DROTARY_WERROR="$(werror "$cxx")" "$@" >&2
  cmake --build "$build" -j "$jobs" "${build_targets[@]}" >&2
  log=$build/ctest.log
  (cd "$build" && ctest -j "$jobs" "${ctest_options[@]}" --output-on-failure --no-tests=error) 2>&1 | tee "$log" |
    grep -vE '^ *[0-9]+/[0-9]+ .*Passed|^ *Start ' || status=$?
  passed=$((passed + $(grep -cE '^ *[0-9]+/[0-9]+ .* Passed ' "$log" || true)))
  skipped=$((skipped + $(grep -cE '^ *[0-9]+/[0-9]+ .*\*\*\*Skipped' "$log" || true)))
  local bad
  bad=$(grep -cE '^ *[0-9]+/[0-9]+ .*\*\*\*(Failed|Timeout|Exception|Not Run)' "$log" || true)
  [ "$bad" -gt 0 ] || grep -q '100% tests passed' "$log" || bad=1
  failed=$((failed + bad))
}

# torch_stage NAME [OPTION]: OPTION for scripts/torch.sh.
torch_stage() {
  local torch_root status=0
  need "${torch_packages[@]}"
  torch_root=$("$root/scripts/torch.sh" "${@:2}" | tail -n 1) || status=$?
  if [ "$status" -ne 0 ]; then
    say "$1: no torch"
    count "$status" || true
    return
  fi
  build_targets=(--target torch_tests) ctest_options=(-L torch) folder=release
  run_stage "$1" g++ -DCMAKE_BUILD_TYPE=Release -DROTARY_CUDA=OFF -DROTARY_TORCH=ON -DTORCH_ROOT="$torch_root"
}

# part_stage PART: built without what stands above it.
part_stage() {
  local options=(-DROTARY_CLI=OFF)
  case "$1" in
    core | gpu) options=(-DROTARY_FILES=OFF) ;;
    files) options=(-DROTARY_TOOLS=OFF) ;;
    cli) options=() ;;
  esac
  build_targets=(--target "$1_tests") ctest_options=(-L "^$1\$")
  run_stage "$1" g++ -DCMAKE_BUILD_TYPE=Release -DROTARY_TORCH=OFF -DROTARY_CUDA=OFF "${options[@]}"
}

# cuda_stage: on release's objects. The tests without a GPU are those of release, so only what nvcc changes is run.
cuda_stage() {
  if ! find_nvcc >/dev/null; then
    say "cuda: skipped, no nvcc here; release has compiled the kernels by g++ and run them on the CPU"
    skipped=$((skipped + 1))
    return
  fi
  build_targets=(--target cuda_tests) folder=release
  ctest_options=(-R '^(on the GPU: |gpu ptx$|an installed rotary )')
  # The PTX check goes on to a binary, for 90.
  run_stage cuda g++ -DCMAKE_BUILD_TYPE=Release -DROTARY_TORCH=OFF -DROTARY_CUDA=ON \
            -DCMAKE_CUDA_ARCHITECTURES=80-virtual
}

# count STATUS: adds a script's exit status to the sums, 77 as skipped; fails where it is not 0.
count() {
  case "$1" in
    0) passed=$((passed + 1)) ;;
    77) skipped=$((skipped + 1)); return 1 ;;
    *) failed=$((failed + 1)); return 1 ;;
  esac
}

# emulated_stage ARCHITECTURE
emulated_stage() {
  local status=0
  say "== $1"
  ROTARY_JOBS=$jobs "$root/scripts/test_emulated.sh" "$1" "$root/build/test-$1" >&2 || status=$?
  count "$status" || true
}

cross_stage() {
  local status=0
  say "== cross"
  ROTARY_JOBS=$jobs ROTARY_CROSS=$root/build/test-cross "$root/scripts/cross.sh" --quick >&2 || status=$?
  count "$status" || true
}

bare_stage() {
  local status=0
  say "== bare"
  if [ "$(id -u)" -ne 0 ] || ! grep -qsx 'ID=debian' /etc/os-release; then
    say "bare: skipped, it needs root and Debian"
    status=77
  else
    ROTARY_AGAIN=1 "$root/scripts/bare.sh" readme trixie >&2 || status=$?
  fi
  count "$status" || true
}

# add_up LOG: adds the closing line of a test that prints "N passed, N failed, N skipped"; without it, a failure.
add_up() {
  local sum a b c _
  if sum=$(tail -n 1 "$1" | grep -E '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$'); then
    read -r a _ b _ c _ <<<"$sum"
    passed=$((passed + a)) failed=$((failed + b)) skipped=$((skipped + c))
  else
    failed=$((failed + 1))
  fi
}

# web_stage: the page in Chromium and its program in node, beside release's, and the hash of bits by its compiler.
web_stage() {
  local tools program=$root/build/test-release/bin/rotary build=$root/build/web/program bits
  local log=$root/build/test-web.log status=0
  say "== web"
  need nodejs python3-venv
  "$root/scripts/web.sh" "$root/build" >&2 || status=$?
  case "$status" in
    0) ;;
    77) say "web: skipped, no zig from PyPI for this machine"; skipped=$((skipped + 1)); return ;;
    *) failed=$((failed + 1)); return ;;
  esac
  [ -x "$program" ] || program=$("$root/scripts/build.sh" | tail -n 1)
  bits=$(sed -nE 's/^set\(rotary_bits ([0-9a-f]{16})\)$/\1/p' "$root/core/tests/bits/CMakeLists.txt")
  cmake --build "$build" -j "$jobs" --target bits_test >&2
  if node --no-warnings "$root/core/tests/bits/run_wasm.mjs" "$build/core/tests/bits/bits_test" "$bits" >&2; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
  fi
  node "$root/web/tests/node_test.mjs" "$build/web/rotary.wasm" "$program" 2>&1 | tee "$log" >&2 || true
  add_up "$log"
  if ! need_browser; then
    say "web: the panels are skipped, there is no Chromium, or no selenium from PyPI"
    skipped=$((skipped + 1))
    return
  fi
  "$tools/bin/python" "$root/web/tests/page_test.py" "$root/build/rotary.html" "$program" 2>&1 | tee "$log" >&2 || true
  add_up "$log"
}

# need_browser: Chromium, and a Python that drives it into $tools.
need_browser() {
  tools=$cache/web-tools
  (need chromium chromium-driver) && command -v chromedriver >/dev/null &&
    { [ -x "$tools/bin/python" ] || python3 -m venv "$tools"; } &&
    "$tools/bin/pip" install -q "selenium==4.51.0" >&2 &&
    "$tools/bin/pip" install -q --no-deps "axe-playwright-python==0.1.8" >&2
}

# site_stage: the site, its links and its pages in Chromium; with the explorer where the stage web has built it.
site_stage() {
  local log=$root/build/test-site.log explorer=$root/build/rotary.html status=0 tools
  say "== site"
  mkdir -p "$root/build"
  [ -f "$explorer" ] || explorer=
  ROTARY_EXPLORER=$explorer "$root/scripts/site.sh" "$root/build/site" >&2 || status=$?
  count "$status" || return 0
  if ! need_browser; then
    say "site: its pages are not looked at, there is no Chromium, or no selenium from PyPI"
    skipped=$((skipped + 1))
    return
  fi
  "$tools/bin/python" "$root/web/tests/site_test.py" "$root/build/site" 2>&1 | tee "$log" >&2 || true
  add_up "$log"
}

# fuzz_stage: 60 s for each target.
fuzz_stage() {
  local log=$root/build/test-fuzz.log
  say "== fuzz"
  mkdir -p "$root/build"
  ROTARY_FUZZ=$root/build/test-fuzz "$root/scripts/fuzz.sh" all 60 >"$log" || true
  add_up "$log"
}

# python_stage wheel|all
python_stage() {
  local log=$root/build/test-python-$1.log status=0
  say "== python, $1"
  mkdir -p "$root/build"
  ROTARY_WHEEL_BUILD=$root/build/test-release "$root/scripts/test_python.sh" "$1" >"$log" || status=$?
  if [ "$status" -eq 77 ]; then
    skipped=$((skipped + 1))
    return
  fi
  add_up "$log"
}

for stage in "$@"; do
  build_targets=() ctest_options=() folder=""
  case "$stage" in
    release) [ -z "${ROTARY_AGAIN:-}" ] || ctest_options=(-LE once)
             run_stage release g++ -DCMAKE_BUILD_TYPE=Release -DROTARY_TORCH=OFF -DROTARY_CUDA=OFF -DROTARY_BENCH=ON ;;
    asan) need_sanitizers
          # Not the tests that are no other here, nor some that run a hundred commands which others run too.
          # One type of tensors is enough, and glibc leaks the path of a locale.
          others='^(Docs/|Explain|Usage\.|Cli\.)|says/(explain|models|usage|accuracy|inspect|table)|Parts\.AreNamed'
          others+='|^Types/.*/(F16|F32|1-byte object <0E>)|^Caller\.ALocale'
          others+='|^each public header|^an installed|^conformance'
          ctest_options=(-LE once -E "$others")
          run_stage asan clang++ -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
                   -DROTARY_SANITIZE=address,undefined ;;
    clang) need clang
           # Tests of what an optimiser could change: all else is no other here than in asan.
           for name in rotate angles angle_targets append table portable bits; do
             build_targets+=("${name}_test")
           done
           build_targets=(--target "${build_targets[@]}")
           ctest_options=(-LE once -E '_NOT_BUILT$|^example|^programs of|^fuzz|^each public')
           run_stage clang clang++ -DCMAKE_BUILD_TYPE=Release -DROTARY_FILES=OFF -DROTARY_PORTABLE=ON \
                     -DROTARY_FAST_BUILD=OFF ;;
    cuda) cuda_stage ;;
    core | gpu | files | tools | cli) part_stage "$stage" ;;
    bits) build_targets=(--target bits_test) ctest_options=(-R "the bits of every compiler")
          run_stage bits "${CXX:-g++}" -DCMAKE_BUILD_TYPE=Release -DROTARY_FILES=OFF -DROTARY_TESTS=OFF \
                    -DROTARY_BITS=ON ;;
    neon) emulated_stage aarch64 ;;
    s390x) emulated_stage s390x ;;
    cross) cross_stage ;;
    bare) bare_stage ;;
    wheel) python_stage wheel ;;
    python) python_stage all ;;
    torch) torch_stage torch ;;
    parity) torch_stage parity --full ;;
    web) web_stage ;;
    site) site_stage ;;
    fuzz) fuzz_stage ;;
    *) say "test.sh: no stage named $stage; there are: release asan clang bits cuda neon s390x cross wheel bare" \
           "python torch parity web site fuzz core gpu files tools cli"
       exit 2 ;;
  esac
done

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
