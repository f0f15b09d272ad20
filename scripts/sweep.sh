#!/usr/bin/env bash
# Regenerates the sheet of models from PyPI's transformers (6 GB with torch): files/tests/golden/sweep, the rows of
# files/models/models.json, with the position ids that files/models/sweep/positions.py measures, and docs/models.md. A
# run for all models also writes tools/tests/golden/position_ids.json.
#   scripts/sweep.sh [model_type ...]    default: every model_type of the installed transformers, about ten minutes
#   PYTHON=PROGRAM    a Python that has torch, transformers and diffusers; else scripts/torch.sh --full installs one
# `git diff` shows the changes: a record that differs is a model that rotates differently.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if [ -z "${PYTHON:-}" ]; then
  site=$("$root/scripts/torch.sh" --full | tail -n 1)
  PYTHON=${site%/lib/python3*}/bin/python
fi
"$PYTHON" "$root/files/models/sweep/sweep.py" "$@"
"$PYTHON" "$root/files/models/sweep/diffusers_ropes.py" "$@"
"$PYTHON" "$root/files/models/sweep/positions.py" "$@"
[ $# -gt 0 ] || "$PYTHON" "$root/files/models/sweep/position_ids.py"
"$PYTHON" "$root/files/models/sweep/page.py"
