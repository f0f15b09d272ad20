"""What one call of Llama's apply_rotary_pos_emb costs as it is and with rotary.patch, alternating in one run.

    PYTHONPATH=python python python/bench/patch_call.py
"""

import statistics
import time

import rotary
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama import modeling_llama


def timed(function, *inputs):
    repeats = 1
    while True:
        start = time.perf_counter()
        for _ in range(repeats):
            function(*inputs)
        took = time.perf_counter() - start
        if took > 0.02:
            return took / repeats
        repeats *= 4


def main():
    torch.set_num_threads(1)
    rotary.set_num_threads(1)
    torch.manual_seed(0)
    shape = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**shape, num_hidden_layers=4, vocab_size=96)).eval()
    original = modeling_llama.apply_rotary_pos_emb
    report = rotary.patch(model)
    patched = modeling_llama.apply_rotary_pos_emb
    with torch.no_grad():
        for dtype in (torch.float32, torch.bfloat16):
            for tokens in (1, 64, 2048):
                q, k = (torch.randn(1, tokens, heads, 128).to(dtype).transpose(1, 2) for heads in (32, 8))
                cos, sin = (torch.cat((rows, rows), -1).to(dtype) for rows in torch.randn(2, 1, tokens, 64))
                times = [(timed(original, q, k, cos, sin), timed(patched, q, k, cos, sin)) for _ in range(9)]
                old, new = (statistics.median(column) * 1e6 for column in zip(*times))
                print(f"{dtype}, {tokens} tokens: original {old:.1f} us, patched {new:.1f} us, ratio {old / new:.2f}")
        for tokens in (1, 256):
            ids, times = torch.zeros(1, tokens, dtype=torch.long), []
            for _ in range(9):
                pair = []
                for function in (original, patched):
                    modeling_llama.apply_rotary_pos_emb = function
                    pair.append(timed(lambda: model(input_ids=ids, use_cache=False)))
                times.append(pair)
            modeling_llama.apply_rotary_pos_emb = patched
            old, new = (statistics.median(column) * 1e6 for column in zip(*times))
            print(
                f"a model of 4 layers, {tokens} tokens: original {old:.0f} us, patched {new:.0f} us, ratio {old / new:.3f}"
            )
    report.undo()


if __name__ == "__main__":
    main()
