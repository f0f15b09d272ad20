#!/usr/bin/env bash
# Installs the wheels of the Python package and of the program into fresh virtual environments and runs python/tests.
#   scripts/test_python.sh wheel   with numpy and matplotlib, by this machine's python3
#   scripts/test_python.sh all     the same wheels beside several versions of torch, transformers and JAX, by several
#                                  Pythons (12 GB): the `environments` below
#   ROTARY_MADE_WHEELS="FILE FILE"  those instead of ones by this machine's compiler
#   ROTARY_WHEEL_BUILD=DIR  as of wheel.sh
#   ROTARY_CACHE=DIR    where the environments of `all` are kept (default ~/.cache/rotary)
# The last line printed is "N passed, N failed, N skipped". Exit 77: PyPI cannot be reached.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

others="jax[cpu]==0.10.2 numpy matplotlib ml_dtypes mypy basedpyright"
# NAME PYTHON PACKAGE...: the first PYTHON of those, separated by commas, that is on the machine.
environments=(
  "newest python3.11,python3.12,python3.13,python3 torch==2.15.0 transformers==5.24.0 kernels $others"
  "torch-2.9 python3.12,python3.13,python3 torch==2.9.1 transformers numpy ml_dtypes"
  "torch-2.4 python3.11,python3 torch==2.4.1 numpy<2.3"
)
passed=0 failed=0 skipped=0

# find_python NAMES: prints the path of the first that runs: of PATH, else of pyenv.
find_python() {
  local name found
  for name in ${1//,/ }; do
    for found in "$(command -v "$name" || true)" "$HOME/.pyenv/versions/${name#python}".*/bin/"$name"; do
      if [ -x "$found" ] && "$found" -c 'import venv, ensurepip' 2>/dev/null; then echo "$found"; return; fi
    done
  done
  return 1
}

# new_environment FOLDER PYTHON PACKAGE...
new_environment() {
  local folder=$1 python=$2 log=$1.log
  shift 2
  mkdir -p "${folder%/*}"
  if { "$python" -m venv --clear "$folder" && "$folder/bin/pip" install "$@"; } >"$log" 2>&1; then
    echo "$python $*" >"$folder/packages"
    return
  fi
  tail -n 3 "$log" >&2
  say "test_python.sh: PyPI has not given us $* (whole log: $log)"
  rm -rf "$folder"
  return 77
}

# run_tests FOLDER [MODULE...]: of an environment, by default all modules; adds up what unittest says.
run_tests() {
  local folder=$1 log=$1.log ran bad left
  shift
  say "== $("$folder/bin/python" -V), $("$folder/bin/pip" list --format freeze 2>/dev/null |
    grep -E '^(rotary|torch|transformers|jax|numpy)=' | tr '\n' ' ')"
  (cd "$root/python/tests" && "$folder/bin/python" -B -m unittest -v "$@") 2>&1 | tee "$log" |
    grep -vE ' \.\.\. ok$' >&2 || true
  ran=$(sed -nE 's/^Ran ([0-9]+) tests? in .*/\1/p' "$log")
  bad=$(grep -cE '^(FAIL|ERROR): ' "$log" || true)
  left=$(sed -nE 's/^(OK|FAILED) .*skipped=([0-9]+).*/\2/p' "$log")
  [ "$bad" -gt 0 ] || grep -qE '^OK( |$)' "$log" || bad=1
  [ -n "$ran" ] || { failed=$((failed + 1)); return 0; }
  passed=$((passed + ran - ${left:-0} - bad)) skipped=$((skipped + ${left:-0})) failed=$((failed + bad))
}

run_smoke() { if in_empty_folder "$@" >&2; then passed=$((passed + 1)); else failed=$((failed + 1)); fi; }

test_wheel() {
  local folder=$root/build/test-wheel
  local checkers=(mypy basedpyright)
  [ -z "${ROTARY_AGAIN:-}" ] || checkers=()  # scripts/test.sh
  new_environment "$folder" python3 numpy matplotlib ml_dtypes "${checkers[@]}"
  "$folder/bin/pip" install --no-deps "${wheels[@]}" >&2
  # Not those that want a framework: they would only say that it is not there.
  run_tests "$folder" $(cd "$root/python/tests" && ls test_*.py | grep -vE 'torch|jax|patch' | sed 's/\.py$//')
  # The tests of a release, which no other stage runs.
  run_smoke "$folder/bin/python" -I "$root/packaging/tests/smoke.py" "$root"
  run_smoke "$root/packaging/tests/smoke.sh" "$root" "$folder/bin/rotary"
}

test_all() {
  local row words name python folder
  for row in "${environments[@]}"; do
    read -ra words <<<"$row"
    name=${words[0]} folder=$cache/python-${words[0]}
    if ! python=$(find_python "${words[1]}"); then
      say "test_python.sh: skipped $name, no Python of ${words[1]} is here"
      skipped=$((skipped + 1))
      continue
    fi
    if [ "$(cat "$folder/packages" 2>/dev/null)" != "$python ${words[*]:2}" ] &&
       ! new_environment "$folder" "$python" "${words[@]:2}"; then
      skipped=$((skipped + 1))
      continue
    fi
    "$folder/bin/pip" install --no-deps --force-reinstall "${wheels[@]}" >&2
    run_tests "$folder"
  done
}

need python3 python3-venv
read -ra wheels <<<"${ROTARY_MADE_WHEELS:-}"
if [ ${#wheels[@]} -eq 0 ]; then
  made=$("$root/scripts/wheel.sh" native | tail -n 2)
  mapfile -t wheels <<<"$made"
fi
case "${1:-}" in
  wheel) test_wheel ;;
  all) test_all ;;
  *) say "test_python.sh: it needs wheel or all but got ${1:-nothing}"; exit 2 ;;
esac
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
