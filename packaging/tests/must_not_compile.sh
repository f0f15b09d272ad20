#!/usr/bin/env bash
# Every line of must_not_compile.cpp that says so is an error, and no other; with -DSOUND there is none.
#   must_not_compile.sh CXX SOURCE_DIR
set -euo pipefail
cxx=$1 source=$2
warnings=(-Wall -Wextra -Wconversion -Wshadow -pedantic -Werror)
compile() { "$cxx" -std=c++20 -fsyntax-only -I "$source/core/include" -I "$source/gpu/include" "$@"; }

file=$source/packaging/tests/must_not_compile.cpp
compile "${warnings[@]}" -DSOUND "$file"
case $("$cxx" --version) in *clang*) all=-ferror-limit=0 ;; *) all=-fmax-errors=0 ;; esac
marked=$(grep -n '// must not compile$' "$file" | cut -d: -f1)
refused=$(LC_ALL=C compile "$all" "$file" 2>&1 |
  sed -nE 's/^.*must_not_compile\.cpp:([0-9]+):[0-9]+: error: .*/\1/p' | sort -nu) || true
[ -n "$marked" ] && diff <(echo "$marked") <(echo "$refused") ||
  { echo "lines with < should be errors and compile, lines with > are errors and should compile"; exit 1; }
echo "$(wc -l <<<"$marked") lines are refused"
