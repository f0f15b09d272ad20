#!/usr/bin/env bash
# Each public header compiles alone, included twice, without a warning: as C++20; the two for C also as C99 and C++11.
#   headers.sh CXX SOURCE_DIR
set -euo pipefail
cxx=$1
cd "$2"
warnings="-Wall -Wextra -Wconversion -Wshadow -pedantic -Werror"
includes=$(printf -- '-I %s ' {core,gpu,files,tools}/include)
# alone LANGUAGE STANDARD HEADER
alone() {
  # shellcheck disable=SC2086
  printf '#include "rotary/%s"\n' "${3##*/}" "${3##*/}" |
    "$cxx" -x "$1" -std="$2" -fsyntax-only $includes $warnings - || { echo "$3, $2"; return 1; }
}
export -f alone
export cxx includes warnings
# As many at a time as there are processors.
for header in {core,gpu,files,tools}/include/rotary/*.h; do
  echo "c++ c++20 $header"
  case $header in *_c.h) printf '%s\n' "c c99 $header" "c++ c++11 $header" ;; esac
done | xargs -P "$(nproc)" -L 1 bash -c 'alone "$@"' alone
