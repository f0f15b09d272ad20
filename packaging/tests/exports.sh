#!/usr/bin/env bash
# A shared library exports rotary's functions and classes that a public header names, rotary::detail, and for C the
# functions that c_symbols.txt beside this script lists.
#   exports.sh LIBRARY SOURCE_DIR
set -euo pipefail
library=$1 source=$2
bad=0 seen=0
while read -r symbol; do
  case "$symbol" in
    *rotary::detail::*) continue ;;
    *rotary::*) ;;
    *) continue ;;
  esac
  case "${symbol%%rotary::*}" in *std::*) continue ;; esac  # an instantiation of the standard library
  seen=$((seen + 1))
  name=${symbol%%(*}
  name=${name%%<*}
  name=${name##*::}
  name=${name#\~}
  name=${name%%\[*}
  [ -n "$name" ] || continue
  grep -qrw -- "$name" "$source"/{core,gpu,files,tools}/include ||
    { echo "exported, but in no public header: $symbol"; bad=1; }
  case "$symbol" in
    *rotary::files::* | *rotary::cpu::* | *rotary::scalings::*) echo "exported, but internal: $symbol"; bad=1 ;;
  esac
done < <(nm -DC --defined-only "$library" | cut -d' ' -f3-)
diff "$(dirname "$0")/c_symbols.txt" \
  <(nm -D --defined-only "$library" | sed -nE 's/.* T (rotary_[a-z_]+)$/\1/p' | sort) ||
  { echo "lines with < are missing, lines with > are not in c_symbols.txt: what C programs link is a promise"; bad=1; }
[ "$seen" -gt 150 ] || { echo "only $seen symbols of rotary in $library"; exit 1; }
echo "$seen exported symbols, all of public headers"
exit "$bad"
