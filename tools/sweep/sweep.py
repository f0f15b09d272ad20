#!/usr/bin/env python3
"""Writes tests/golden/sweep/<model_type>.json for every model_type of the installed transformers that rotates, and the
rows of data/models.json that follow from its classes (table.py).

    python tools/sweep/sweep.py [model_type ...]        (needs torch and transformers; default: all)

A file holds the config that the class makes of nothing, as save_pretrained writes it, and the truth about its ropes:
what the model's own rotary module and apply function do to vectors (rotations.py). Nothing here knows what rotary's
reader expects. A part of a config is answered by its adapter (adapters.py), else by running its model (generic.py).
"""
import collections
import json
import pathlib
import re
import sys
import warnings

import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "golden"))

from adapters import ADAPTERS, FLAGGED, MUST_SAY, NOT_ROTARY, NOTES
from files import GOLDEN, write
from generic import has_layers, records
from run import modeling_files
import table

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
SWEEP = GOLDEN / "sweep"
ROTARY_CODE = re.compile(r"inv_freq|[Rr]otary|freqs_cis|(?<![a-z])rope(?![a-z])|RoPE|Rope[A-Z]|ROPE")
BORING = {"id2label", "label2id", "transformers_version", "_name_or_path", "output_hidden_states", "return_dict",
          "chunk_size_feed_forward", "problem_type", "architectures"}
ROPE_KEY = re.compile(r"rope|rotary|theta|partial|position", re.IGNORECASE)
TELLING = re.compile(ROPE_KEY.pattern + "|head|layer|sliding|window", re.IGNORECASE)  # null says something


def parts(config, path=""):
    """(dotted path, config) of a config and of all configs inside it."""
    yield path, config
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            yield from parts(value, f"{path}.{name}".lstrip("."))


def name_of(config):
    """What an adapter is found by: the model_type, or the class where a sub-config has none."""
    return config.model_type or type(config).__name__


def has_rotary_code(config):
    return any(ROTARY_CODE.search(path.read_text()) for path in modeling_files(config))


def published(config):
    """The config as save_pretrained writes it, without what no rope could read."""
    def clean(value, of_rope=False):
        if isinstance(value, dict):
            return {k: clean(v, of_rope or bool(ROPE_KEY.search(k))) for k, v in value.items()
                    if k not in BORING and (v is not None or of_rope or TELLING.search(k))}
        return [clean(v, of_rope) for v in value] if isinstance(value, list) else value

    values = clean(json.loads(config.to_json_string(use_diff=False)))
    return {"model_type": config.model_type} | values


class Summary:
    """What the sweep found, in numbers, and every part that gave no rope."""

    def __init__(self):
        self.files, self.without, self.reasons, self.silent = set(), set(), [], []  # without: a word of rotary code
        self.ropes = collections.Counter()

    def __str__(self):
        return "\n".join(self.reasons + [
            f"{len(self.files)} files; ropes: {self.ropes['run']} by running the model, {self.ropes['adapter']} by "
            f"adapters; {len(self.reasons)} reasons why not",
            f"rotary words in the code but neither a rope nor a reason: {self.silent}"])


def told(error, most=150):
    return " ".join(str(error).split())[:most]


def answer_of(part, root):
    """The records of one part, or the reason why there is none."""
    name = name_of(part)
    try:
        answer = (ADAPTERS.get(name) or records)(part, root)
    except Exception as error:  # the summary names it, and the sweep goes on
        return f"not answered: {type(error).__name__}: {told(error)}"
    note = {"note": NOTES[name]} if name in NOTES else {}
    return answer if isinstance(answer, str) else [entry | note for entry in answer]


def swept(file, config, summary):
    """(ropes, none) of one config, as its file has them."""
    ropes, none = [], []
    for path, part in parts(config):
        name = name_of(part)
        if name in NOT_ROTARY or name not in ADAPTERS and not (has_rotary_code(part) and has_layers(part)):
            continue
        answer = answer_of(part, config)
        if isinstance(answer, str):
            none.append({"part": path, "why": answer})
            summary.reasons.append(f"{file} [{path}]: {answer}")
        else:
            ropes += [{"part": path} | rope for rope in answer]
            summary.ropes["adapter" if name in ADAPTERS else "run"] += len(answer)
            summary.silent += [] if answer else [f"{file} [{path}] {name}"]
    return ropes, none


def default_config(model_type, flag=""):
    """That of the class, or with a flag that switches a rope on; None, and a line, where it makes none."""
    try:
        return CONFIG_MAPPING[model_type](**MUST_SAY.get(model_type, {}) | FLAGGED.get(model_type, {}).get(flag, {}))
    except Exception as error:
        print(f"{model_type}: makes no default config: {told(error)}")


def main(names):
    summary, sheet = Summary(), table.read()
    made = {"transformers": transformers.__version__, "torch": torch.__version__}
    for model_type in sorted({name.split("+")[0] for name in names} or CONFIG_MAPPING):
        for flag in ("", *FLAGGED.get(model_type, ())):
            file, config = f"{model_type}+{flag}".rstrip("+"), default_config(model_type, flag)
            if config is None or names and model_type not in names and file not in names:
                continue
            if not any(has_rotary_code(part) or name_of(part) in ADAPTERS for _, part in parts(config)):
                summary.without.add(model_type)
                continue
            ropes, none = swept(file, config, summary)
            if not flag:
                table.update(sheet, config, ropes)
            if ropes or none:
                record = {"model_type": model_type, "made": made, "config": published(config)}
                write(SWEEP / f"{file}.json", record | {"ropes": ropes, "none": none})
                summary.files.add(f"{file}.json")
    table.add_without(sheet, summary.without)
    table.write(sheet)
    if not names:  # what a whole sweep did not find is gone
        for path in SWEEP.glob("*.json"):
            if path.name not in summary.files:
                path.unlink()
    print(summary)
    return 1 if summary.silent else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
