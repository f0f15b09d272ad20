#!/usr/bin/env bash
# Regenerates the sheet of models: tests/golden/sweep and the rows of data/models.json from PyPI's transformers (6 GB with
# torch) and what tools/sweep/positions.py measures of position ids, then docs/models.md; of all models also
# tests/golden/position_ids.json.
#   scripts/sweep.sh [model_type ...]    default: every model_type of the installed transformers, about ten minutes
#   PYTHON=PROGRAM    a Python that has torch, transformers and diffusers; otherwise scripts/torch.sh --full installs one
# What changed is in `git diff`: a record that differs is a model that rotates differently.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if [ -z "${PYTHON:-}" ]; then
  site=$("$root/scripts/torch.sh" --full | tail -n 1)
  PYTHON=${site%/lib/python3*}/bin/python
fi
"$PYTHON" "$root/tools/sweep/sweep.py" "$@"
"$PYTHON" "$root/tools/sweep/diffusers_ropes.py" "$@"
"$PYTHON" "$root/tools/sweep/positions.py" "$@"
[ $# -gt 0 ] || "$PYTHON" "$root/tools/sweep/position_ids.py"
"$PYTHON" "$root/tools/sweep/page.py"
