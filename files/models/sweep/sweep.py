#!/usr/bin/env python3
"""Writes files/tests/golden/sweep/<model_type>.json for every model_type of the installed transformers that rotates,
and the rows of files/models/models.json that follow from its classes (table.py).

    python files/models/sweep/sweep.py [model_type ...]        (needs torch and transformers; default: all)

Prints a page of what differs from the sheet before it (changes.py), and on stderr its progress. A file holds the
config that the class makes of nothing, as save_pretrained writes it, and the truth about its ropes: what the model's
own rotary module and apply function do to vectors (rotations.py). Nothing here knows what rotary's reader expects. A
part of a config is answered by its adapter (adapters.py), else by running its model (generic.py).
"""
import json
import pathlib
import re
import sys
import warnings

import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "golden"))

from adapters import ADAPTERS, NOT_ROTARY
from changes import ROPE_KEY, described, differences, page
from files import GOLDEN, write
from generic import has_layers, records
from run import CASES, modeling_files
import table

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
SWEEP = GOLDEN / "sweep"
ROTARY_CODE = re.compile(r"inv_freq|[Rr]otary|freqs_cis|(?<![a-z])rope(?![a-z])|RoPE|Rope[A-Z]|ROPE")
BORING = {"id2label", "label2id", "transformers_version", "_name_or_path", "output_hidden_states", "return_dict",
          "chunk_size_feed_forward", "problem_type", "architectures"}
TELLING = re.compile(ROPE_KEY.pattern + "|head|layer|sliding|window", re.IGNORECASE)  # null says something
FAILED = {}  # model_type: why it has no default config, or no record


def parts(config, path=""):
    """(dotted path, config) of a config and of all configs inside it."""
    yield path, config
    for name, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            yield from parts(value, f"{path}.{name}".lstrip("."))


def name_of(config):
    """The key of an adapter: the model_type, or the class where a sub-config has none."""
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


def first_words(error, most=150):
    return " ".join(str(error).split())[:most]


def answer_of(part, root):
    """The records of one part, or the reason why there is none."""
    name = name_of(part)
    try:
        answer = (ADAPTERS.get(name) or records)(part, root)
    except Exception as error:  # its line says it, and the sweep goes on
        return f"not answered: {type(error).__name__}: {first_words(error)}"
    note = {"note": CASES["notes"][name]} if name in CASES["notes"] else {}
    return answer if isinstance(answer, str) else [entry | note for entry in answer]


def swept(config):
    """(ropes, none) of one config, as its file has them. A part with rotary words and neither is a line of FAILED."""
    ropes, none = [], []
    for path, part in parts(config):
        name = name_of(part)
        if name in NOT_ROTARY or name not in ADAPTERS and not (has_rotary_code(part) and has_layers(part)):
            continue
        answer = answer_of(part, config)
        if isinstance(answer, str):
            none.append({"part": path, "why": answer})
        ropes += [{"part": path} | rope for rope in answer] if isinstance(answer, list) else []
        if not answer:
            FAILED[f"{config.model_type} {name}"] = "rotary words in the code, but neither a rope nor a reason"
    return ropes, none


def default_config(model_type, flag=""):
    """The config of the class's defaults, or with a flag that adds a rope; None, and a line of FAILED, on an error."""
    try:
        needed, others = (CASES[word].get(model_type, {}) for word in ("needed", "others"))
        return CONFIG_MAPPING[model_type](**needed | others.get(flag, {}))
    except Exception as error:
        FAILED[model_type] = f"makes no default config: {first_words(error)}"


def record_of(config, flag, sheet):
    """The record of a config, with its rows in the sheet; without a rope and a reason it is none."""
    ropes, none = swept(config)
    if not flag:
        table.update(sheet, config, ropes)
    made = {"transformers": transformers.__version__, "torch": torch.__version__}
    return {"model_type": config.model_type, "made": made, "config": published(config), "ropes": ropes, "none": none}


def records_of(model_types, names, sheet):
    """{file's name: record}, and the model_types that have no word of rotary code."""
    records, without = {}, set()
    for model_type in model_types:
        for flag in ("", *CASES["others"].get(model_type, ())):
            file, config = f"{model_type}+{flag}".rstrip("+"), default_config(model_type, flag)
            if config is None or names and model_type not in names and file not in names:
                continue
            if not any(has_rotary_code(part) or name_of(part) in ADAPTERS for _, part in parts(config)):
                without.add(model_type)
                continue
            print(file, file=sys.stderr, flush=True)
            try:
                records[file] = record_of(config, flag, sheet)
            except Exception as error:
                FAILED[model_type] = f"{type(error).__name__}: {first_words(error)}"
    return {file: record for file, record in records.items() if record["ropes"] or record["none"]}, without


def told(before, records, without):
    """The page. before: the records of the sheet until now; without: the new types without rotary code."""
    versions = ", ".join(sorted({record["made"]["transformers"] for record in before.values()}))
    rotate = len({record["model_type"] for record in records.values() if record["ropes"]})
    gone = {name: FAILED.get(record["model_type"], "transformers has no such rotary code now")
            for name, record in before.items() if name not in records}
    changed = {name: differences(before[name], record) for name, record in records.items() if name in before}
    return page(f"transformers {transformers.__version__} beside {versions}: {rotate} types rotate", [
        ("new", [f"{name}: {described(record)}" for name, record in records.items() if name not in before]),
        ("new, without a word of rotary code", [" ".join(sorted(without))] if without else []),
        ("changed", [f"{name}: {what}" for name, what in changed.items() if what]),
        ("no longer there", [f"{name}: {why}" for name, why in gone.items()]),
        ("not answered", [f"{name}: {why}" for name, why in FAILED.items() if name not in gone])])


def main(names):
    sheet, model_types = table.read(), sorted({name.split("+")[0] for name in names} or CONFIG_MAPPING)
    known = table.known(sheet)
    records, without = records_of(model_types, names, sheet)
    before = {path.stem: json.loads(path.read_text()) for path in SWEEP.glob("*.json")}
    before = {name: record for name, record in before.items() if "transformers" in record["made"]
              and (not names or name in names or record["model_type"] in names)}
    for name, record in records.items():
        write(SWEEP / f"{name}.json", record)
    for name in before.keys() - records.keys() if not names else ():  # a model that a whole sweep did not find is gone
        (SWEEP / f"{name}.json").unlink()
    table.add_without(sheet, without)
    table.write(sheet)
    print(told(before, records, without - known))


if __name__ == "__main__":
    main(sys.argv[1:])
