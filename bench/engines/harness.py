"""harness.py ADAPTER CONFORMANCE OUT.npz [ID...]: writes what the adapter's engine makes of each case. Runs in the
engine's own environment with numpy alone.

An adapter's rotate(folder, case, q, positions) lets the engine read folder/config.json and rotate q, float32
[tokens, head_dim], at positions ([tokens], or [axes, tokens] too where the adapter says AXES = 2) in layer
case["layer"]. It gives float32 of q's shape, in which a row of NaN stands for a position that the engine's table does
not reach, or the end of each head alone, where the engine hands its rope no more (MLA). Where the adapter says
ENDS = True, each call has a process of its own, which the engine may end.
"""
import importlib
import json
import multiprocessing
import pathlib
import re
import shutil
import sys
import tempfile
import traceback

import numpy as np
from values import read_values

SMALL = {"vocab_size": 64, "intermediate_size": 32, "moe_intermediate_size": 32, "num_nextn_predict_layers": 0,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}  # turn nothing


class NotThere(Exception):
    """The engine has no such model, or nothing that could be called for it: no cell."""


class OtherHead(Exception):
    """The engine takes the heads for as many elements."""


def need(holds, sentence):
    if not holds:
        raise NotThere(sentence)


def need_head(size, q):
    if size != q.shape[1]:
        raise OtherHead(size)


def hub_name(case):
    """The model's name on the hub, for an engine that knows models by it and reads no config.json."""
    name = case["source"].partition(";")[0].partition(",")[0]
    need(" " not in name and not any(word in case["source"] for word in ("; changed", "first published")),
         "not the file of this name as it is published")
    return name


def turn_reached(turn, rows, q, positions):
    """turn(q, positions) of the positions that the engine's table of so many rows reaches, NaN for the others."""
    reached = positions.reshape(-1, len(q)).max(0) < rows
    turned = np.asarray(turn(q[reached], positions[..., reached]))
    out = np.full((len(q), turned.shape[1]), np.nan, np.float32)
    out[reached] = turned
    return out


def make_small(folder, layer):
    """Writes the config with layers up to this one and small sizes of what turns nothing, for an engine that makes the
    whole model in memory; gives its text."""
    path = pathlib.Path(folder) / "config.json"
    config = json.loads(path.read_text())
    for part in (config, config.get("text_config", {})):
        fixed = part.get("model_type") == "phi" and {"intermediate_size"} or ()  # llama.cpp takes phi-2's as it is
        part |= {key: value for key, value in SMALL.items() if key in part and key not in fixed}
        part |= {key: part[key][:layer + 1] for key in ("layer_types", "no_rope_layers") if part.get(key)}
        part |= {"num_hidden_layers": layer + 1} if "num_hidden_layers" in part else {}
    path.write_text(json.dumps(config))
    return path.read_text()


def last_line(error):
    """The last line that the exception passed: its place and its text."""
    frame = [f for f in traceback.extract_tb(error.__traceback__) if "/torch/" not in f.filename][-1]
    return f"{frame.filename.split('site-packages/')[-1]}:{frame.lineno}", (frame.line or "").strip()


def is_about_rope(error):
    """Whether the exception, or the engine's code that it passed, speaks of the rotation. Other parts of a model may
    need keys, kernels or packages that are not here."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "site-packages/" in f.filename]
    said = [str(error), *(f"{f.filename.split('site-packages/')[-1]} {f.name} {f.line}" for f in frames)]
    return any(re.search("rotary|rope(?!rt)", text) for text in said)  # a property is none


def answer(adapter, folder, case, q):
    """(result, sentence, rotated): result is "rotated", "refused", "crashed", "head_dim" or "not there"."""
    try:
        positions = np.array(case["positions"])
        need(positions.ndim <= getattr(adapter, "AXES", 1), "positions of several axes")
        out = np.asarray(adapter.rotate(folder, case, q.copy(), positions), np.float32)
        if out.shape[1] < q.shape[1]:
            begin = np.where(np.isnan(out).all(1, keepdims=True), np.nan, q[:, :q.shape[1] - out.shape[1]])
            out = np.concatenate([begin, out], 1, dtype=np.float32)
        return ("rotated", "", out) if out.shape == q.shape else ("crashed", f"a result of shape {out.shape}", None)
    except NotThere as error:
        return "not there", str(error), None
    except OtherHead as error:
        return "head_dim", f"a head has {case['head_dim']} elements; the engine takes it for {error}", None
    except Exception as error:  # noqa: BLE001  (whatever an engine throws is its answer)
        traceback.print_exc()
        place, line = last_line(error)  # an engine that says no says it with raise or assert
        said = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        if not is_about_rope(error):
            return "not there", f"cannot be made here: {said} ({place})", None
        refuses = line.startswith(("raise", "assert")) and not isinstance(error, AttributeError)
        return "refused" if refuses else "crashed", f"{said} ({place})", None


def in_child(*arguments):
    """answer(), where the engine lives to give one."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(answer(*arguments)))
    child.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return "not there", "the engine ended its process", None
    finally:
        child.join()


def main():
    adapter, conformance, out = importlib.import_module(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    values, said, tensors = read_values(conformance / "values.safetensors"), {}, {}
    for case in json.loads((conformance / "cases.json").read_text()):
        if sys.argv[4:] and case["id"] not in sys.argv[4:] or case["config"].endswith(".params.json"):
            continue
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(conformance / case["config"], pathlib.Path(folder) / "config.json")
            call = in_child if getattr(adapter, "ENDS", False) else answer
            result, sentence, rotated = call(adapter, folder, case, values[case["id"] + ".q"])
        said[case["id"]] = [result, sentence]
        if rotated is not None:
            tensors[case["id"]] = rotated
        print(case["id"], result, sentence, file=sys.stderr, flush=True)
    np.savez(out, said=json.dumps(said), **tensors)


if __name__ == "__main__":
    importlib.import_module("harness").main()  # the module that adapters import, whose exceptions are theirs
