#!/usr/bin/env bash
# Regenerates the sheet of models: files/tests/golden/sweep and the rows of files/models/models.json from PyPI's transformers (6 GB with
# torch) and what files/models/sweep/positions.py measures of position ids, then docs/models.md; of all models also
# tools/tests/golden/position_ids.json.
#   scripts/sweep.sh [model_type ...]    default: every model_type of the installed transformers, about ten minutes
#   PYTHON=PROGRAM    a Python that has torch, transformers and diffusers; otherwise scripts/torch.sh --full installs one
# What changed is in `git diff`: a record that differs is a model that rotates differently.
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
