#!/usr/bin/env bash
# Regenerates the sheet of models from PyPI's transformers (6 GB with torch): files/tests/golden/sweep, the rows of
# files/models/models.json, with the position ids that files/models/sweep/positions.py measures, and docs/models.md. A
# run for all models also writes tools/tests/golden/position_ids.json. Prints what changed, a page of at most 40 lines;
# `git diff` shows the rest: a record that differs is a model that rotates differently.
#   scripts/sweep.sh [model_type ...]    default: every model_type of the installed transformers, about ten minutes
#   --transformers VERSION    tries that release (newest: PyPI's), which is installed beside the pinned one, and without
#                     diffusers. The sheet of this tree stays as it is: the new one and the log lie where the page's
#                     last line says. The status is 0 with a page, whatever the models do
#   --write           with --transformers: writes the sheet of this tree
#   PYTHON=PROGRAM    a Python that has torch, transformers and diffusers; else scripts/torch.sh --full installs one
#   ROTARY_CACHE=DIR  where to install (default ~/.cache/rotary)
set -euo pipefail
. "$(dirname "$0")/lib.sh"

version="" write="" names=()
while [ $# -gt 0 ]; do
  case $1 in
    --transformers) version=${2:?sweep.sh: --transformers needs a VERSION}; shift ;;
    --write) write=yes ;;
    -*) say "sweep.sh: unknown option $1"; exit 2 ;;
    *) names+=("$1") ;;
  esac
  shift
done
[ -n "$version" ] || [ -z "$write" ] || { say "sweep.sh: --write needs --transformers"; exit 2; }

if [ -z "${PYTHON:-}" ]; then
  site=$("$root/scripts/torch.sh" --full | tail -n 1)
  PYTHON=${site%/lib/python3*}/bin/python
fi
tree=$root
if [ "$version" = newest ]; then
  version=$("$PYTHON" -m pip index versions transformers 2>/dev/null | sed -nE 's/^transformers \((.*)\)$/\1/p')
  [ -n "$version" ] || { say "sweep.sh: PyPI does not say which transformers is the newest"; exit 77; }
  say "sweep.sh: transformers $version"
fi
if [ -n "$version" ]; then
  home=${ROTARY_CACHE:-$HOME/.cache/rotary}/transformers-$version
  log=$home/log.txt
  if [ ! -f "$home/complete" ]; then
    rm -rf "$home"
    mkdir -p "$home"
    "$PYTHON" -m pip install --target "$home/site" "transformers==$version" >"$log" 2>&1 ||
      { tail -n 3 "$log" >&2; say "sweep.sh: could not install transformers $version (whole log: $log)"; exit 1; }
    touch "$home/complete"
  fi
  export PYTHONPATH=$home/site${PYTHONPATH:+:$PYTHONPATH}
  if [ -z "$write" ]; then
    tree=$home/sheet
    rm -rf "$tree"
    mkdir -p "$tree/docs" "$tree/files/tests/golden" "$tree/tools/tests"
    cp -r "$root/files/golden" "$root/files/models" "$tree/files"
    cp -r "$root/files/tests/golden/sweep" "$tree/files/tests/golden"
    cp -r "$root/tools/tests/golden" "$tree/tools/tests"
  fi
  exec 2>"$log"
fi

step() { "$PYTHON" "$tree/files/models/sweep/$1.py" "${@:2}"; }
fail() { [ -z "$version" ] || echo "$1.py failed: $(tail -n 1 "$log")"; return 1; }
try() { step "$@" || fail "$1" || [ -n "$version" ]; }
step sweep "${names[@]}" || fail sweep
[ -n "$version" ] || step diffusers_ropes "${names[@]}"
try positions "${names[@]}"
[ ${#names[@]} -gt 0 ] || try position_ids
step page
[ -z "$version" ] || echo "log: $log; sheet: $tree"
