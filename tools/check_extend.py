"""Holds the plans of `rotary extend` against transformers: writes the config of every method, loads it with AutoConfig, and
compares inv_freq and the attention scaling of the model's own rotary class, at the new length.

    python tools/check_extend.py ROTARY [--types N] CONFIG...

CONFIG: config.json files. --types N: beside them, the default configs of the first N model types of transformers that
have a rope, each extended to 4 times its max_position_embeddings. Prints one line for each config and the sum; exits with
1 where a plan differs by more than the float32 arithmetic of transformers explains, or none was compared.
"""

import argparse
import collections
import importlib
import inspect
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

os.environ["TRANSFORMERS_VERBOSITY"] = "critical"
METHODS = ("linear", "ntk", "dynamic", "yarn", "llama3", "longrope", "default")
RTOL = 2e-5  # float32 powers of the base, and for dynamic of a base that is itself a float32 power


def extend(program, config, context, method, folder):
    words = [program, "extend", str(config), "--length", str(context), "--scaling", method, "--json", "--output", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr.splitlines()[0] if done.stderr else f"exit {done.returncode}"
    return json.loads(done.stdout), ""


def part_of(config, part):
    for key in filter(None, part.split(".")):
        config = getattr(config, key)
    if not part and hasattr(config, "get_text_config"):
        config = config.get_text_config()
    return config


def rotary_of(config):
    """An instance of the rotary class of the config's modeling module that is made from such a config."""
    package = type(config).__module__.rsplit(".", 1)[0]
    folder = pathlib.Path(importlib.import_module(package).__file__).parent
    own = type(config).__name__.removesuffix("TextConfig").removesuffix("Config")
    found = []
    for path in sorted(folder.glob("modeling_*.py")):
        module = importlib.import_module(f"{package}.{path.stem}")
        for name, kind in inspect.getmembers(module, inspect.isclass):
            if not name.endswith(("RotaryEmbedding", "RotaryEmbed")) or kind.__module__ != module.__name__:
                continue
            if "config" not in inspect.signature(kind.__init__).parameters or "Vision" in name:
                continue
            found.append((not name.startswith(own), len(name), name, kind))
    if not found:
        return None
    return sorted(found, key=lambda one: one[:3])[0][3](config)


def turned_by(rotary, config, label, context):
    """(inv_freq, attention scaling) after a forward pass over the whole context."""
    import torch

    x = torch.zeros(1, 1, 8)
    ids = torch.tensor([[context - 1]])
    more = {"layer_type": label} if label and "layer_type" in inspect.signature(rotary.forward).parameters else {}
    for positions in (ids, ids[None].expand(3, 1, 1), ids[None].expand(4, 1, 1)):
        try:
            rotary(x, positions, **more)
            break
        except Exception:
            continue
    else:
        if rotary.rope_type in ("dynamic", "longrope"):
            raise ValueError("the rotary class takes no positions of one or several axes")
    if hasattr(rotary, "rope_init_fn") and rotary.rope_type == "longrope":  # PhiMoE turns by what its own call makes
        return rotary.rope_init_fn(config)[0], config.rope_parameters["long_mscale"]
    prefix = f"{label}_" if more else ""
    return getattr(rotary, f"{prefix}inv_freq"), getattr(rotary, f"{prefix}attention_scaling", None)


def compare(plan, folder):
    """The largest relative difference, or a word why there is none."""
    import numpy
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(folder)
    worst = 0.0
    method = plan["methods"][0]
    for planned in [method, *method["more_ropes"]]:
        rope = plan["ropes"][planned["rope"]]
        part = part_of(config, rope["part"])
        rotary = rotary_of(part)
        if rotary is None:
            return "no rotary class"
        label = next((t for t in rope["layer_types"] if "sliding" not in t), *rope["layer_types"][:1] or [""])
        inv_freq, scaling = turned_by(rotary, part, label, plan["context"])
        expected = numpy.array(planned["inv_freq"])
        got = inv_freq.double().numpy().ravel()
        if "ernie" in part.model_type:  # its buffer holds the pairs in another order
            got, expected = numpy.sort(got), numpy.sort(expected)
        if got.shape != expected.shape:
            return f"{got.size} pairs instead of {expected.size}"
        turning = expected != 0
        if (got[~turning] != 0).any():
            return "a still pair turns"
        worst = max(worst, float(numpy.max(numpy.abs(got[turning] / expected[turning] - 1))))
        if scaling is not None:
            worst = max(worst, abs(float(scaling) / planned["attention_factor"] - 1))
    return worst


def with_parameters(plan, config, folder):
    """The original config with the rope_parameters that the plan shows, instead of the file that it wrote."""
    text = json.loads(config.read_text())
    part = text
    for key in filter(None, plan["ropes"][plan["methods"][0]["rope"]]["part"].split(".")):
        part = part[key]
    part.pop("rope_scaling", None)
    part["rope_parameters"] = plan["methods"][0]["rope_parameters"]
    part["max_position_embeddings"] = plan["methods"][0]["max_position_embeddings"]
    for change in plan["methods"][0]["changes"]:
        if change["key"].endswith(("head_dim", "original_max_position_embeddings")):
            part[change["key"].rsplit(".", 1)[-1]] = change["after"]
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(text))
    return folder


def default_configs(count, folder):
    """config.json of the model types of transformers whose default config has a rope."""
    from transformers import CONFIG_MAPPING

    made = 0
    for model_type in sorted(CONFIG_MAPPING):
        if made == count:
            return
        try:
            config = CONFIG_MAPPING[model_type]()
            text = json.loads(config.to_json_string(use_diff=False))
        except Exception:
            continue
        if "rope_parameters" not in json.dumps(text):
            continue
        path = pathlib.Path(folder) / model_type
        path.mkdir()
        (path / "config.json").write_text(json.dumps(text, indent=2) + "\n")
        made += 1
        yield path / "config.json"


def length_of(program, config):
    """What the command takes for the trained length; it says so where the context is too short."""
    done = subprocess.run([program, "extend", str(config), "--length", "1000000000", "--json"], capture_output=True, text=True)
    return json.loads(done.stdout)["trained_length"] if done.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rotary")
    parser.add_argument("--types", type=int, default=0)
    parser.add_argument("configs", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    counts, types = collections.Counter(), set()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "types").mkdir()
        files = [pathlib.Path(path) for path in options.configs]
        for number, config in enumerate([*files, *default_configs(options.types, scratch / "types")]):
            trained = length_of(options.rotary, config)
            words = []
            for method in METHODS if trained else ():
                folder = scratch / f"{number}-{method}"
                plan, why = extend(options.rotary, config, 4 * trained, method, folder)
                if plan is None:
                    counts["refused"] += 1
                    words.append(f"{method} refused")
                    continue
                try:
                    result = compare(plan, folder)
                    if plan["methods"][0]["rope_parameters"] and not isinstance(result, str):
                        other = compare(plan, with_parameters(plan, config, scratch / f"{number}-{method}-5"))
                        result = other if isinstance(other, str) else max(result, other)
                except Exception as error:
                    result = f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"
                if isinstance(result, str):
                    counts["not compared"] += 1
                    words.append(f"{method} not compared ({result})")
                elif result <= RTOL:
                    counts["equal"] += 1
                    types.add(plan["model_type"])
                    words.append(f"{method} {result:.1e}")
                else:
                    counts["DIFFERENT"] += 1
                    words.append(f"{method} DIFFERENT {result:.1e}")
            name = config.parent.name if config.name == "config.json" else config.name
            print(f"{name}: {', '.join(words) if words else 'refused'}", flush=True)
    print(f"{len(types)} model types; " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    sys.exit(1 if counts["DIFFERENT"] or not counts["equal"] else 0)


if __name__ == "__main__":
    main()
