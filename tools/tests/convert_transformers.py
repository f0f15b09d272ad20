"""Converts a tiny random checkpoint of the models of the installed transformers, and says what came of each.

    python tools/tests/convert_transformers.py ROTARY [MODEL_TYPE ...]

ROTARY is the program. transformers loads the converted checkpoint; q and k are permuted back into the model's own order
before its rotation function and into the converted order after it, and the logits must be those of the source. Where a
key of the config says the pairing, the model is only loaded. Converting back must give the same files. Exits with 1
where one of these fails.
"""
import collections
import contextlib
import inspect
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from unittest import mock

import torch
import transformers
from safetensors.torch import load_file

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "python/tests"))
import tiny_models

IDS = torch.arange(3, 10)[None]  # fewer tokens than the sparse attentions select
ROTATION = re.compile(r"apply_.*rot|apply_multimodal_rot|apply_rope")
QUERY_NAMES = {"q", "xq", "query", "query_states", "queries"}
OTHER = {"half": "interleaved", "interleaved": "half"}


class Failed(Exception):
    """The result for a model, in a word and a sentence."""


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)


def order(elements, first, rotary_dim, to):
    """index so that x[..., index] is in the pairing `to` where x is in the other one."""
    index, block = torch.arange(elements), slice(first, first + rotary_dim)
    index[block] = index[block].view(-1, 2).T.flatten()
    return index if to == "half" else index.argsort()


def reordered(x, blocks, to, width):
    """x of a whole head, or of its rotated part. width: of cos, which tells blocks of heads of one size apart."""
    for head_dim, first, rotary_dim in sorted(blocks, key=lambda block: block[2] not in (width, 2 * width)):
        if x.shape[-1] == head_dim:
            return x[..., order(head_dim, first, rotary_dim, to)]
        if x.shape[-1] == rotary_dim:
            return x[..., order(rotary_dim, 0, rotary_dim, to)]
    raise Failed("odd", f"a rotation of {x.shape[-1]} elements, which are none of {blocks}")


def in_other_order(function, blocks, native):
    """The rotation function, for q and k in the pairing that is not the model's."""
    signature = inspect.signature(function)
    heads = list(signature.parameters)[:2]
    heads = heads if heads[0] in QUERY_NAMES else heads[:1]

    def rotate(*given, **named):
        bound = signature.bind(*given, **named)
        values = bound.arguments
        width = next(x for name, x in values.items() if name not in heads and torch.is_tensor(x)).shape[-1]
        values |= {name: reordered(values[name], blocks, native, width) for name in heads}
        back = lambda x: reordered(x, blocks, OTHER[native], width) if torch.is_tensor(x) else x  # noqa: E731
        result = function(*bound.args, **bound.kwargs)
        return tuple(map(back, result)) if isinstance(result, tuple) else back(result)

    return rotate


@contextlib.contextmanager
def other_pairing(model, blocks, native):
    with contextlib.ExitStack() as patches:
        for module in {sys.modules[type(part).__module__] for part in model.modules()}:
            if not module.__name__.startswith("transformers.models"):
                continue
            for name, function in list(vars(module).items()):
                if inspect.isfunction(function) and ROTATION.match(name):
                    rotate = in_other_order(function, blocks, native)
                    patches.enter_context(mock.patch.object(module, name, rotate))
            attention = getattr(module, "RoFormerSelfAttention", None)
            if attention is not None:  # a method, which takes the angles first
                method = attention.apply_rotary_position_embeddings
                swapped = in_other_order(lambda q, k, angles, of=method: of(angles, q, k), blocks, native)
                rotate = staticmethod(lambda angles, q, k, of=swapped: of(q, k, angles))
                patches.enter_context(mock.patch.object(attention, "apply_rotary_position_embeddings", rotate))
        yield


def logits(model):
    with torch.no_grad():
        out = model(IDS)
    return out.logits if getattr(out, "logits", None) is not None else out[0]


def make(config_class, model_class, folder):
    try:
        model = tiny_models.tiny(config_class, model_class).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "norm" in name or name.endswith("bias"):
                    parameter.add_(torch.randn_like(parameter) * 0.3)
        logits(model)
    except Exception as error:
        raise Failed(
            "no tiny model", f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        ) from None
    model.save_pretrained(folder, max_shard_size="200KB")


def converted(rotary, source, output):
    """The report of the conversion to the pairing that the checkpoint does not have."""
    for to in ("interleaved", "half"):
        result = run(rotary, "convert", source, "--to", to, "--output", output, "--verify", "--json")
        if result.returncode == 0:
            return json.loads(result.stdout)
        if "already" not in result.stderr:
            break
    raise Failed("refused", result.stderr.split("\n")[0])


def same_tensors(source, back):
    """Whether the way back gave the same tensors, bit for bit. The metadata say the pairing now."""
    def bits(file):
        return [(name, x.dtype, x.shape, x.numpy().tobytes()) for name, x in load_file(file).items()]

    return all(bits(file) == bits(back / file.name) for file in source.glob("*.safetensors"))


def outcome(rotary, config_class, model_class, folder):
    source, output, back = folder / "source", folder / "converted", folder / "back"
    make(config_class, model_class, source)
    report = converted(rotary, source, output)
    result = run(rotary, "convert", output, "--to", OTHER[report["to"]], "--output", back)
    if result.returncode or not same_tensors(source, back):
        raise Failed("WRONG", f"the way back: {result.stderr}")
    before, after = (
        model_class.from_pretrained(path, dtype=torch.float32).eval() for path in (source, output)
    )
    wanted, native = logits(before), OTHER[report["to"]]
    blocks = sorted({(t["head_dim"], t["first"], t["rotary_dim"]) for t in report["tensors"]})
    plain = (logits(after) - wanted).abs().max().item()
    summary = f"to {report['to']}, {len(report['tensors'])} tensors, heads {blocks}"
    if report["config"]:
        return ("equal" if plain < 1e-4 else "WRONG"), f"{summary}, by {report['config'][0]['key']}: {plain:.1e}"
    with other_pairing(after, blocks, native):
        difference = (logits(after) - wanted).abs().max().item()
    good = difference < 1e-4 and plain > 50 * difference
    return ("equal" if good else "WRONG"), f"{summary}: {difference:.1e}; in the wrong pairing {plain:.1e}"


def classes():
    """{model_type: (config class, model class)} of the models that take token ids."""
    found = {}
    for mapping in (transformers.MODEL_FOR_CAUSAL_LM_MAPPING, transformers.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
                    transformers.MODEL_MAPPING):
        for config_class in mapping.keys():
            with contextlib.suppress(KeyError, ValueError, ImportError):
                kinds = mapping[config_class]
                kind = kinds[0] if isinstance(kinds, (list, tuple)) else kinds
                found.setdefault(config_class.model_type, (config_class, kind))
    return found


def late(_signal, _frame):
    raise Failed("no tiny model", "it takes more than half a minute")


def main(rotary, wanted):
    signal.signal(signal.SIGALRM, late)
    count = collections.Counter()
    for model_type, (config_class, model_class) in classes().items():
        if wanted and model_type not in wanted:
            continue
        signal.alarm(30)
        with tempfile.TemporaryDirectory() as folder:
            try:
                word, rest = outcome(rotary, config_class, model_class, pathlib.Path(folder))
            except Failed as failed:
                word, rest = failed.args
            except Exception as error:
                word, rest = "odd", f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
        signal.alarm(0)
        count[word] += 1
        print(f"{model_type}: {word}: {rest}", flush=True)
    print(dict(count))
    return int(count["WRONG"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
