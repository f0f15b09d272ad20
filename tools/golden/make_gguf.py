#!/usr/bin/env python3
"""Small GGUF files and the ropes that they describe: tests/golden/gguf.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0 mpmath==1.4.1 && VENV/bin/python tools/golden/make_gguf.py

The files are written by PyPI's gguf with the keys that llama.cpp's conversion writes for real models, at the size of
the models' heads. expected.json is computed here by the formulas of ggml's rope in mpmath, from the float32 values
that the files hold; nothing of this project takes part.
"""

import json
import pathlib

import gguf
import mpmath
import numpy as np

mpmath.mp.prec = 200
FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "gguf"


def real(x):
    """x as the file holds it: float32."""
    return mpmath.mpf(float(np.float32(x)))


def plain(base, dim):
    return [real(base) ** (-mpmath.mpf(2 * i) / dim) for i in range(dim // 2)]


def magnitude(factor, m=1):
    return 1 if factor <= 1 else mpmath.mpf(m) * mpmath.log(factor) / 10 + 1


def yarn(base, dim, factor, trained, fast=32, slow=1):
    """arXiv:2309.00071, with the correction range rounded outward."""

    def correction(rotations):
        return dim * mpmath.log(trained / (rotations * 2 * mpmath.pi)) / (2 * mpmath.log(real(base)))

    low = max(0, int(mpmath.floor(correction(fast))))
    high = min(dim - 1, int(mpmath.ceil(correction(slow))))
    result = []
    for i, w in enumerate(plain(base, dim)):
        ramp = min(1, max(0, mpmath.mpf(i - low) / max(mpmath.mpf("0.001"), high - low)))
        result.append(w * (1 - ramp) + w / factor * ramp)
    return result


def llama3_divisors(base, dim, factor=8, low=1, high=4, trained=8192):
    """What conversion/llama.py stores as rope_freqs.weight, in float32."""
    divisors = []
    for w in plain(base, dim):
        length = 2 * mpmath.pi / w
        if length < mpmath.mpf(trained) / high:
            divisors.append(1.0)
        elif length > mpmath.mpf(trained) / low:
            divisors.append(float(factor))
        else:
            s = (trained / length - low) / (high - low)
            divisors.append(float(1 / ((1 - s) / factor + s)))
    return np.array(divisors, dtype=np.float32)


def divided(frequencies, divisors):
    return [w / mpmath.mpf(float(d)) for w, d in zip(frequencies, divisors)]


def write(name, architecture, layers, heads, kv_heads, width, more=(), tensors=()):
    writer = gguf.GGUFWriter(str(FOLDER / f"{name}.gguf"), architecture)
    writer.add_name(f"a small {name}")
    writer.add_block_count(layers)
    writer.add_embedding_length(width)
    writer.add_head_count(heads)
    if kv_heads is not None:
        writer.add_head_count_kv(kv_heads)
    for method, value in more:
        getattr(writer, method)(value)
    for tensor, values in tensors:
        writer.add_tensor(tensor, values)
    if not tensors:
        writer.add_tensor("output_norm.weight", np.ones(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def rope(frequencies, layers, heads, kv_heads, head_dim, pairing, scaling="default", attention=1, first=0, without=(),
         context=4096, base=10000, axis=None, length=0):
    return {
        "layers": list(layers), "layers_without_rope": list(without), "heads": heads, "kv_heads": kv_heads,
        "head_dim": head_dim, "rotary_dim": 2 * len(frequencies), "first": first, "pairing": pairing,
        "scaling": scaling, "base": float(np.float32(base)), "context": context,
        "attention_factor": float(attention), "axis": axis or [0] * len(frequencies), "length": length,
        "inv_freq": [float(w) for w in frequencies],
    }  # fmt: skip


def make():
    expected = {}
    context = ("add_context_length", 4096)

    def add(name, architecture, *ropes):
        expected[name] = {"model_type": architecture, "ropes": list(ropes)}

    def dims(count):
        return ("add_rope_dimension_count", count)

    def base(value):
        return ("add_rope_freq_base", value)

    write("llama", "llama", 2, 4, 2, 512, [context, dims(128), ("add_token_list", ["<s>", "</s>", "é"])])
    add("llama", "llama", rope(plain(1e4, 128), [0, 1], 4, 2, 128, "interleaved"))

    divisors = llama3_divisors(5e5, 128)
    write("llama31", "llama", 2, 4, 2, 512, [("add_context_length", 131072), dims(128), base(5e5)],
          [("rope_freqs.weight", divisors)])
    add("llama31", "llama", rope(divided(plain(5e5, 128), divisors), [0, 1], 4, 2, 128, "interleaved", "longrope",
                                 context=131072, base=5e5))

    write("qwen2", "qwen2", 2, 8, 2, 512, [("add_context_length", 32768), base(1e6)])
    add("qwen2", "qwen2", rope(plain(1e6, 64), [0, 1], 8, 2, 64, "half", context=32768, base=1e6))

    write("gptneox", "gptneox", 1, 8, None, 512, [("add_context_length", 2048), dims(16)])
    add("gptneox", "gptneox", rope(plain(1e4, 16), [0], 8, 8, 64, "half", context=2048))

    write("stablelm", "stablelm", 1, 4, 4, 320, [context, dims(20)])
    add("stablelm", "stablelm", rope(plain(1e4, 20), [0], 4, 4, 80, "half"))

    short = np.linspace(1, 1.5, 48, dtype=np.float32)
    long = np.linspace(1, 60.25, 48, dtype=np.float32)
    attention = mpmath.sqrt(1 + mpmath.log(32) / mpmath.log(4096))
    write("phi3", "phi3", 1, 4, 4, 384,
          [("add_context_length", 131072), dims(96), ("add_rope_scaling_orig_ctx_len", 4096),
           ("add_rope_scaling_attn_factors", float(attention))],
          [("rope_factors_long.weight", long), ("rope_factors_short.weight", short)])
    given = dict(layers=[0], heads=4, kv_heads=4, head_dim=96, pairing="half", scaling="longrope",
                 attention=real(float(attention)), context=131072)
    add("phi3", "phi3", rope(divided(plain(1e4, 96), short), **given, length=4096),
        )
    add("phi3_long", "phi3", rope(divided(plain(1e4, 96), long), **given, length=4097))
    expected["phi3_long"]["file"] = "phi3"

    write("gemma3", "gemma3", 12, 4, 1, 640,
          [("add_context_length", 131072), ("add_key_length", 256), ("add_sliding_window", 1024), base(1e6),
           ("add_rope_scaling_type", gguf.RopeScalingType.LINEAR), ("add_rope_scaling_factor", 8.0)])
    far = [5, 11]
    near = [i for i in range(12) if i not in far]
    add("gemma3", "gemma3", rope(plain(1e4, 256), near, 4, 1, 256, "half", context=131072),
        rope([w / 8 for w in plain(1e6, 256)], far, 4, 1, 256, "half", "linear", context=131072, base=1e6))

    sections = [16, 24, 24, 0]
    write("qwen2vl", "qwen2vl", 1, 4, 2, 512,
          [("add_context_length", 32768), base(1e6), ("add_rope_dimension_sections", sections)])
    add("qwen2vl", "qwen2vl", rope(plain(1e6, 128), [0], 4, 2, 128, "half", context=32768, base=1e6,
                                   axis=[0] * 16 + [1] * 24 + [2] * 24))

    write("qwen3vl", "qwen3vl", 1, 4, 2, 512,
          [("add_context_length", 32768), base(5e6), ("add_key_length", 128),
           ("add_rope_dimension_sections", [24, 20, 20, 0])])
    add("qwen3vl", "qwen3vl", rope(plain(5e6, 128), [0], 4, 2, 128, "half", context=32768, base=5e6,
                                   axis=[0, 1, 2] * 20 + [0] * 4))

    # DeepSeek V2: mscale = mscale_all_dim = 0.707, stored as a tenth; the two cancel.
    write("deepseek2", "deepseek2", 2, 16, 1, 2048,
          [("add_context_length", 163840), ("add_key_length", 576), ("add_key_length_mla", 192), dims(64),
           ("add_rope_scaling_type", gguf.RopeScalingType.YARN), ("add_rope_scaling_factor", 40.0),
           ("add_rope_scaling_orig_ctx_len", 4096), ("add_rope_scaling_yarn_log_mul", 0.0707)])
    add("deepseek2", "deepseek2", rope(yarn(1e4, 64, 40, 4096), [0, 1], 16, 16, 192, "interleaved", "yarn", first=128,
                                       context=163840))

    write("gpt_oss", "gpt-oss", 1, 8, 2, 512,
          [("add_context_length", 131072), ("add_key_length", 64), base(150000),
           ("add_rope_scaling_type", gguf.RopeScalingType.YARN), ("add_rope_scaling_factor", 32.0),
           ("add_rope_scaling_orig_ctx_len", 4096)])
    add("gpt_oss", "gpt-oss", rope(yarn(150000, 64, 32, 4096), [0], 8, 2, 64, "half", "yarn", magnitude(32),
                                   context=131072, base=150000))

    # Two sizes of attention and a layer with none, as pruned models have them.
    write("deci", "deci", 4, [4, 0, 4, 4], [2, 0, 2, 1], 128, [context, dims(32)])
    add("deci", "deci", rope(plain(1e4, 32), [0, 2], 4, 2, 32, "interleaved", without=[1]),
        rope(plain(1e4, 32), [3], 4, 1, 32, "interleaved", without=[1]))

    still = np.array([1] * 8 + [1e30] * 24, dtype=np.float32)
    write("gemma4", "gemma4", 4, 4, 1, 256,
          [context, ("add_key_length", 64), ("add_key_length_swa", 32), dims(64), ("add_rope_dimension_count_swa", 32),
           base(1e6), ("add_rope_freq_base_swa", 1e4), ("add_sliding_window", 512),
           ("add_sliding_window_pattern", [True, True, False, False])],
          [("rope_freqs.weight", still)])
    add("gemma4", "gemma4", rope(plain(1e4, 32), [0, 1], 4, 1, 32, "half"),
        rope(plain(1e6, 64)[:8] + [mpmath.mpf(0)] * 24, [2, 3], 4, 1, 64, "half", "proportional", base=1e6))

    write("smollm3", "smollm3", 8, 4, 2, 128, [context, base(5e6)])
    add("smollm3", "smollm3", rope(plain(5e6, 32), [0, 1, 2, 4, 5, 6], 4, 2, 32, "interleaved", without=[3, 7],
                                   base=5e6))
    return expected


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / "expected.json").write_text(json.dumps(make(), indent=None, separators=(",", ":")).replace('},"', '},\n"')
                                          + "\n")
