"""Patches a tiny random model of every causal language model of the installed transformers, and says what came of it.

    PYTHONPATH=python python tools/patch_transformers.py [MODEL_TYPE ...]

One line each: logits, gradients, sampled tokens with rotary beside those without; or why there is no tiny model, or what
rotary.patch refused. Exits with 1 where a patched model does something else.
"""

import collections
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python" / "tests"))
import rotary
import tiny_models


def outcome(config_class, model_class):
    """(what came of it in a word, the rest)."""
    try:
        model = tiny_models.tiny(config_class, model_class)
        before = tiny_models.Outcome(model)
    except Exception as error:
        return "no tiny model", f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    try:
        report = rotary.patch(model)
    except rotary.PatchError as error:
        names = "none that is named as one" in str(error)
        return ("no rotary function" if names else "refused"), str(error)
    with report:
        wrong = before.wrong_logits(), before.wrong_gradients(), before.other_tokens()
    kind = "fused" if any(function.proof.bits == "fused" for function in report.functions) else "equal"
    tokens = "tokens equal" if before.tokens is not None else f"no generate ({before.no_tokens[:60]})"
    limit = 1e-5 if kind == "fused" else 0.0
    good = wrong[0] <= limit and wrong[1] <= max(limit, 1e-5) and wrong[2] == 0
    told = f"logits {wrong[0]:g}, gradients {wrong[1]:.1e}, {tokens if wrong[2] == 0 else f'{wrong[2]} tokens differ'}"
    return (kind if good else "WRONG"), told


def main(wanted):
    count = collections.Counter()
    for model_type, config_class, model_class in tiny_models.decoder_classes():
        if wanted and model_type not in wanted:
            continue
        start = time.perf_counter()
        word, rest = outcome(config_class, model_class)
        count[word] += 1
        print(f"{model_type}: {word}: {rest} ({time.perf_counter() - start:.1f} s)", flush=True)
    print(dict(count))
    return int(count["WRONG"] > 0)


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    sys.exit(main(sys.argv[1:]))
