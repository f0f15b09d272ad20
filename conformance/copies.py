#!/usr/bin/env python3
"""copies.py FOLDER: compares configs with published files of their models, ORG--NAME_config.json in FOLDER.

The package aiconfigurator-core of PyPI (0.12.0, Apache-2.0) has such a folder, model_configs. Exit status 1 where a
file of rows.py's COPIED has a key with another value.
"""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "files/golden"))
from models import MODELS  # noqa: E402
from rows import COPIED  # noqa: E402


def different(ours, theirs, above=""):
    """The paths of our keys whose values are others there."""
    for key, value in ours.items():
        if isinstance(value, dict) and isinstance(theirs.get(key), dict):
            yield from different(value, theirs[key], f"{above}{key}.")
        elif theirs.get(key, ...) != value:
            yield above + key


wrong = []
for name, (source, _) in MODELS.items():
    copy = pathlib.Path(sys.argv[1]) / f"{source.split()[0].strip(':,;').replace('/', '--')}_config.json"
    ours = HERE / "configs" / f"{name}.json"
    if copy.exists() and ours.exists():
        found = list(different(json.loads(ours.read_text()), json.loads(copy.read_text())))
        print(f"{name}: {', '.join(found) if found else 'every key as there'}")
        wrong += [name] if found and name in COPIED else []
sys.exit(f"other values: {', '.join(wrong)}" if wrong else 0)
