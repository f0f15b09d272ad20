#!/usr/bin/env bash
# Builds the site: README, the pages of docs, the public headers, the Python package and the explorer, with a search.
# Any web server can serve it; it asks no other server for anything. A link that leads nowhere is an error.
#   scripts/site.sh DIR    writes DIR/index.html and the rest; what DIR held before is removed
#   ROTARY_EXPLORER=FILE   the explorer, as scripts/web.sh writes it; empty: none (default: built by scripts/web.sh)
#   ROTARY_CACHE=DIR       where PyPI's mkdocs-material goes, 170 MB (default ~/.cache/rotary)
# Exit 77: no PyPI.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ $# -eq 1 ] && [ "${1#-}" = "$1" ] || { say "usage: scripts/site.sh DIR"; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
need python3 python3-venv
install_from_pypi site-tools mkdocs==1.6.1 mkdocs-material==9.8.2 mkdocstrings==1.0.8 mkdocstrings-python==2.0.11 \
  griffelib==2.4.1 pymdown-extensions==13.1.2 ruff==0.17.6 || exit $?
if [ -z "${ROTARY_EXPLORER+set}" ]; then
  "$root/scripts/web.sh" "$root/build"
  ROTARY_EXPLORER=$root/build/rotary.html
fi
[ -z "$ROTARY_EXPLORER" ] || ROTARY_EXPLORER=$(realpath "$ROTARY_EXPLORER")
export ROTARY_EXPLORER NO_MKDOCS_2_WARNING=1
# Not with -q, which leaves --strict no warnings to count.
"$venv/bin/mkdocs" build --strict -f "$root/mkdocs.yml" -d "$out"
