#!/usr/bin/env bash
# What compiles and what does not, by the compiler that builds the tests.
#   check.sh refused CXX SOURCE_DIR   every line of must_not_compile.cpp that says so is an error, and no other; with
#                                     -DSOUND there is none
#   check.sh headers CXX SOURCE_DIR   each public header compiles alone, twice included, without a warning
set -euo pipefail
what=$1 cxx=$2 source=$3
warnings=(-Wall -Wextra -Wconversion -Wshadow -pedantic -Werror)
compile() { "$cxx" -std=c++20 -fsyntax-only -I "$source/include" "$@"; }

if [ "$what" = headers ]; then
  # alone LANGUAGE STANDARD HEADER
  alone() {
    printf '#include "rotary/%s"\n' "${3##*/}" "${3##*/}" |
      "$cxx" -x "$1" -std="$2" -fsyntax-only -I "$source/include" "${warnings[@]}" - || { echo "$3, $2"; return 1; }
  }
  # Each of C++20; those of C of C99 and C++11 too. As many at a time as there are processors.
  for header in "$source"/include/rotary/*.h; do
    echo "c++ c++20 $header"
    case $header in *_c.h) printf '%s\n' "c c99 $header" "c++ c++11 $header" ;; esac
  done >"${scratch:=$(mktemp)}"
  trap 'rm -f "$scratch"' EXIT
  export -f alone
  export cxx source
  xargs -a "$scratch" -P "$(nproc)" -L 1 bash -c 'warnings=('"${warnings[*]}"'); alone "$@"' alone
  exit
fi

file=$source/tests/compile/must_not_compile.cpp
compile "${warnings[@]}" -DSOUND "$file"
case $("$cxx" --version) in *clang*) all=-ferror-limit=0 ;; *) all=-fmax-errors=0 ;; esac
marked=$(grep -n '// must not compile$' "$file" | cut -d: -f1)
refused=$(LC_ALL=C compile "$all" "$file" 2>&1 | sed -nE 's/^.*must_not_compile\.cpp:([0-9]+):[0-9]+: error: .*/\1/p' | sort -nu) || true
[ -n "$marked" ] && diff <(echo "$marked") <(echo "$refused") ||
  { echo "lines with < should be errors and compile, lines with > are errors and should compile"; exit 1; }
echo "$(wc -l <<<"$marked") lines are refused"
