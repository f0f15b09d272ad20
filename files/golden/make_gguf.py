#!/usr/bin/env python3
"""Small GGUF files and the ropes that they describe: files/tests/golden/gguf.

    python3 -m venv VENV && VENV/bin/pip install gguf==0.19.0 mpmath==1.4.1 && VENV/bin/python files/golden/make_gguf.py

The files are written by PyPI's gguf with the keys that llama.cpp's conversion writes for real models, at the size of
the models' heads. expected.json is computed here by the formulas of make_golden.py, from the float32 values that the
files hold; nothing of this project takes part.
"""
import json

import gguf
import mpmath
import numpy as np

import models
from files import GOLDEN
from make_golden import formula
from models import rope

mpmath.mp.prec = 200
FOLDER = GOLDEN / "gguf"
EXPECTED = {}
LINEAR, YARN = gguf.RopeScalingType.LINEAR, gguf.RopeScalingType.YARN


def expect(name, architecture, ropes, context, lists=None, length=0):
    described = []
    for one in ropes:
        inv_freq, attention = formula(one, lists, length)
        keys = ("layers", "layers_without_rope", "heads", "kv_heads", "head_dim", "rotary_dim", "first", "pairing")
        described.append({key: one[key] for key in keys} | {
            "scaling": one["scaling"]["name"], "base": float(one["base"]), "context": context,
            "attention_factor": float(attention), "axis": one["axis"], "length": length,
            "inv_freq": [float(w) for w in inv_freq]})
    EXPECTED[name] = {"model_type": architecture, "ropes": described}


def model(name, architecture, layers, heads, kv_heads, width, *ropes, context=4096, tensors=None, lists=None, length=0,
          newer=None, **keys):
    """Writes a file and what it describes. keys: as the methods add_... of the writer; newer: keys that it has no
    method for; lists, length: of a longrope."""
    expect(name, architecture, ropes, context, lists, length)
    writer = gguf.GGUFWriter(str(FOLDER / f"{name}.gguf"), architecture)
    shape = {"name": f"a small {name}", "block_count": layers, "embedding_length": width, "head_count": heads,
             "head_count_kv": kv_heads, "context_length": context}
    for key, value in (shape | keys).items():
        if value is not None:
            getattr(writer, f"add_{key}")(value)
    for key, value in (newer or {}).items():
        add = {int: writer.add_uint32, float: writer.add_float32, list: writer.add_array}[type(value)]
        add(f"{architecture}.{key}", value)
    for tensor, values in (tensors or {"output_norm.weight": np.ones(4)}).items():
        writer.add_tensor(tensor, np.asarray(values, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def newer():
    """Architectures that came after gguf 0.19, by their graphs in llama.cpp's src/models of September 2026."""
    full, window = [0, 4], [1, 2, 3, 5, 6, 7]
    model("laguna", "laguna", 8, 4, 2, 512,
          rope(full, 4, 2, 128, 5e5, rotary_dim=64, scaling=models.yarn(32, 4096)), rope(window, 4, 2, 128, 1e4),
          context=131072, key_length=128, rope_dimension_count=64, rope_dimension_count_swa=128, rope_freq_base=5e5,
          rope_freq_base_swa=1e4, sliding_window=512, rope_scaling_type=YARN, rope_scaling_factor=32.0,
          rope_scaling_orig_ctx_len=4096)
    model("cohere2moe", "cohere2moe", 8, 4, 2, 512,
          rope([0, 1, 2, 3, 5, 6, 7], 4, 2, 128, 5e4, "interleaved", without=[4]), rope_freq_base=5e4,
          sliding_window=512, leading_dense_block_count=1)
    turning, still = models.every(8, 4)
    model("muse-glimmer", "muse-glimmer", 8, 4, 2, 512,
          rope(still, 4, 2, 128, 1e4, "interleaved", without=turning), sliding_window=512, rope_freq_base=1e4)
    model("qwen4exp", "qwen4exp", 8, 4, 2, 512,
          rope(turning, 4, 2, 128, 1e7, axis=models.interleaved_axes(24, 20, 20), without=still), rope_freq_base=1e7,
          rope_dimension_sections=[24, 20, 20, 0])
    turning, still = models.every(16, 8)
    model("minimax-01", "minimax-01", 16, 4, 2, 512, rope(turning, 4, 2, 128, 1e7, rotary_dim=64, without=still),
          rope_freq_base=1e7, rope_dimension_count=64)
    model("hy_v4", "hy_v4", 2, 16, 1, 2048, rope(2, 16, 16, 192, 1e7, "interleaved", rotary_dim=64, first=128),
          context=1048576, key_length=576, key_length_mla=192, rope_dimension_count=64, rope_freq_base=1e7)
    # The graph takes yarn's magnitude back; a layer with ratio 0 is plain.
    last = {"rotary_dim": 64, "first": 448}
    model("deepseek4", "deepseek4", 5, 64, 1, 4096, rope([0, 1, 4], 64, 1, 512, 1e4, "interleaved", **last),
          rope([2, 3], 64, 1, 512, 160000, "interleaved", models.yarn(16, 65536, attention=1), **last), context=1048576,
          key_length=512, rope_dimension_count=64, rope_freq_base=1e4, rope_scaling_type=YARN, rope_scaling_factor=16.0,
          rope_scaling_orig_ctx_len=65536,
          newer={"attention.compress_ratios": [0, 0, 4, 128, 0], "attention.compress_rope_freq_base": 160000.0})
    model("dflash_v4", "dflash", 3, 64, 1, 4096, rope(3, 64, 1, 512, 1e4, "interleaved", **last), key_length=512,
          rope_dimension_count=64, rope_freq_base=1e4, newer={"hyper_connection.count": 4})
    model("dflash", "dflash", 2, 4, 2, 512, rope(2, 4, 2, 128, 1e7), key_length=128, rope_freq_base=1e7,
          rope_dimension_sections=[64, 0, 0, 0])
    # The pattern leaves out the block that predicts further tokens, which slides.
    model("dots3note", "dots3note", 5, [16, 8, 8, 16, 8], 1, 2048,
          rope([0, 3], 16, 16, 192, 1e6, "interleaved", rotary_dim=64, first=128),
          rope([1, 2, 4], 8, 8, 256, 1e4, "interleaved", rotary_dim=64, first=192), key_length=576, key_length_mla=192,
          key_length_swa=1088, rope_dimension_count=64, rope_freq_base=1e6, rope_freq_base_swa=1e4, sliding_window=512,
          sliding_window_pattern=[False, True, True, False], nextn_predict_layers=1,
          newer={"attention.key_length_mla_swa": 256})
    model("maple", "maple", 4, 4, 2, 512, rope([0, 2, 3], 4, 2, 128, 5e5, rotary_dim=64, without=[1]), key_length=128,
          rope_dimension_count=64, rope_freq_base=5e5, sliding_window=128,
          sliding_window_pattern=[True, False, True, True])
    model("pockettts", "pockettts", 6, 16, 16, 1024, rope(6, 16, 16, 64, 1e4, "interleaved"), rope_freq_base=1e4)


def main():
    model("llama", "llama", 2, 4, 2, 512, rope(2, 4, 2, 128, 1e4, "interleaved"), rope_dimension_count=128,
          token_list=["<s>", "</s>", "é"])

    # The values that conversion/llama.py stores as rope_freqs.weight.
    plain, _ = formula(rope(2, 4, 2, 128, 5e5))
    scaled, _ = formula(rope(2, 4, 2, 128, 5e5, scaling=models.llama3(8)))
    divisors = [float(np.float32(float(w / divided))) for w, divided in zip(plain, scaled)]
    model("llama31", "llama", 2, 4, 2, 512,
          rope(2, 4, 2, 128, 5e5, "interleaved", models.longrope(1, 131072)), lists={"short_factor": divisors},
          context=131072, tensors={"rope_freqs.weight": divisors}, rope_dimension_count=128, rope_freq_base=5e5)

    model("qwen2", "qwen2", 2, 8, 2, 512, rope(2, 8, 2, 64, 1e6), context=32768, rope_freq_base=1e6)
    model("gptneox", "gptneox", 1, 8, None, 512, rope(1, 8, 8, 64, 1e4, rotary_dim=16), context=2048,
          rope_dimension_count=16)
    model("stablelm", "stablelm", 1, 4, 4, 320, rope(1, 4, 4, 80, 1e4, rotary_dim=20), rope_dimension_count=20)

    lists = {"long_factor": np.linspace(1, 60.25, 48, dtype=np.float32).tolist(),
             "short_factor": np.linspace(1, 1.5, 48, dtype=np.float32).tolist()}
    attention = float(mpmath.sqrt(1 + mpmath.log(32) / mpmath.log(4096)))
    phi3 = rope(1, 4, 4, 96, 1e4, scaling=models.longrope(32, 4096, float(np.float32(attention))))
    model("phi3", "phi3", 1, 4, 4, 384, phi3, context=131072, lists=lists, length=4096,
          tensors={"rope_factors_long.weight": lists["long_factor"],
                   "rope_factors_short.weight": lists["short_factor"]},
          rope_dimension_count=96, rope_scaling_orig_ctx_len=4096, rope_scaling_attn_factors=attention)
    expect("phi3_long", "phi3", [phi3], 131072, lists, 4097)
    EXPECTED["phi3_long"]["file"] = "phi3"

    far, near = models.every(12, 6)
    model("gemma3", "gemma3", 12, 4, 1, 640,
          rope(near, 4, 1, 256, 1e4), rope(far, 4, 1, 256, 1e6, scaling=models.linear(8)), context=131072,
          key_length=256, sliding_window=1024, rope_freq_base=1e6, rope_scaling_type=LINEAR, rope_scaling_factor=8.0)
    model("qwen2vl", "qwen2vl", 1, 4, 2, 512, rope(1, 4, 2, 128, 1e6, axis=models.sectioned(16, 24, 24)),
          context=32768, rope_freq_base=1e6, rope_dimension_sections=[16, 24, 24, 0])
    model("qwen3vl", "qwen3vl", 1, 4, 2, 512, rope(1, 4, 2, 128, 5e6, axis=models.interleaved_axes(24, 20, 20)),
          context=32768, rope_freq_base=5e6, key_length=128, rope_dimension_sections=[24, 20, 20, 0])

    # DeepSeek V2: mscale = mscale_all_dim = 0.707, stored as a tenth; the two cancel.
    model("deepseek2", "deepseek2", 2, 16, 1, 2048, models.mla(2, 16, 1e4, "interleaved", models.V2_YARN),
          context=163840, key_length=576, key_length_mla=192, rope_dimension_count=64, rope_scaling_type=YARN,
          rope_scaling_factor=40.0, rope_scaling_orig_ctx_len=4096, rope_scaling_yarn_log_mul=0.0707)
    model("gpt_oss", "gpt-oss", 1, 8, 2, 512, rope(1, 8, 2, 64, 150000, scaling=models.yarn(32, 4096)),
          context=131072, key_length=64, rope_freq_base=150000, rope_scaling_type=YARN, rope_scaling_factor=32.0,
          rope_scaling_orig_ctx_len=4096)

    # Two sizes of attention and a layer with none, as pruned models have them.
    model("deci", "deci", 4, [4, 0, 4, 4], [2, 0, 2, 1], 128,
          rope([0, 2], 4, 2, 32, 1e4, "interleaved", without=[1]), rope([3], 4, 1, 32, 1e4, "interleaved", without=[1]),
          rope_dimension_count=32)
    model("gemma4", "gemma4", 4, 4, 1, 256,
          rope([0, 1], 4, 1, 32, 1e4), rope([2, 3], 4, 1, 64, 1e6, scaling=models.proportional(0.25)),
          tensors={"rope_freqs.weight": [1] * 8 + [1e30] * 24}, key_length=64, key_length_swa=32,
          rope_dimension_count=64, rope_dimension_count_swa=32, rope_freq_base=1e6, rope_freq_base_swa=1e4,
          sliding_window=512, sliding_window_pattern=[True, True, False, False])
    turning, still = models.every(8, 4)[::-1]
    model("smollm3", "smollm3", 8, 4, 2, 128, rope(turning, 4, 2, 32, 5e6, "interleaved", without=still),
          rope_freq_base=5e6)
    newer()
    text = json.dumps(EXPECTED, separators=(",", ":")).replace('},"', '},\n"')
    (FOLDER / "expected.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
