#!/usr/bin/env python3
"""What RoPE costs a call by each of Python's doors, beside the formula as models write it, in one alternating run.

    python/bench/doors.py [torch|patch] [--rounds N] [--threads N] [--case WORDS]

torch: rotary's functions, their op and module, and other libraries where they are installed (rotary-embedding-torch,
torchtune; liger-kernel cannot: its kernels are Triton's, which need a GPU), beside eager torch. patch: Llama's
apply_rotary_pos_emb and a model of 4 layers, as they are and by rotary.patch. q has 32 heads and k 8, of 128. Each door
gets cos and sin that are already there. The doors take turns, round by round; told are the median over the rounds of the
first door's time over that of each, and its median and fastest time.
"""

import argparse
import functools
import importlib.util
import pathlib
import statistics
import time

import rotary

HEADS, HEAD_DIM = (32, 8), 128


def q_and_k(torch, tokens, dtype):
    """As a model has them: [batch, tokens, heads, head_dim] in memory."""
    return [torch.randn(1, tokens, n, HEAD_DIM).to(dtype).transpose(1, 2) for n in HEADS]


def other_libraries(tokens):
    """Those that are installed, in their own pairing and layout. Of torchtune its class alone: the whole package wants
    torchao and datasets."""
    doors = {}
    if importlib.util.find_spec("rotary_embedding_torch") is not None:
        from rotary_embedding_torch import RotaryEmbedding

        lucid = RotaryEmbedding(dim=HEAD_DIM).rotate_queries_or_keys
        doors["rotary-embedding-torch (interleaved)"] = lambda q, k: (lucid(q), lucid(k))
    if (package := importlib.util.find_spec("torchtune")) is not None:
        path = pathlib.Path(package.submodule_search_locations[0]) / "modules" / "position_embeddings.py"
        spec = importlib.util.spec_from_file_location("torchtune_position_embeddings", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        tune = module.RotaryPositionalEmbeddings(HEAD_DIM, max_seq_len=max(tokens, 16))
        doors["torchtune (interleaved)"] = lambda q, k: [tune(x.transpose(1, 2)).transpose(1, 2) for x in (q, k)]
    return doors


def torch_doors(torch, tokens, dtype):
    """Of each door a function of q and k that returns the two."""
    module = rotary.torch.RotaryEmbedding(head_dim=HEAD_DIM, pairing="half", layout="bhtd")
    table = module.table(range(tokens))
    single = [torch.tensor(rows) for rows in (table.cos, table.sin)]
    cos, sin = (torch.cat((rows, rows), -1).to(dtype) for rows in single)
    doubled = rotary.from_doubled(cos, sin, pairing="half")
    op, words = torch.ops.rotary_python.rotate_qk, (0, "bhtd", "half", "", False)

    def turned_half(x):
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    def eager(q, k, cos, sin):
        return tuple(x * cos + turned_half(x) * sin for x in (q, k))

    by_table = lambda q, k: rotary.rotate_qk(q, k, table, layout="bhtd")  # noqa: E731
    formula = torch.compile(eager, fullgraph=True)
    return {
        "eager": lambda q, k: eager(q, k, cos, sin),
        "rotary.rotate_qk": by_table,
        "rotary.rotate_qk, doubled rows": lambda q, k: rotary.rotate_qk(q, k, doubled, layout="bhtd"),
        "the op": lambda q, k: op(q, k, *single, *words),
        "RotaryEmbedding, its table in the call": lambda q, k: module(q, k),
        "eager, compiled": lambda q, k: formula(q, k, cos, sin),
        "rotary.rotate_qk, compiled": torch.compile(by_table, fullgraph=True),
        **other_libraries(tokens),
    }


def torch_cases(threads):
    import torch

    torch.set_num_threads(threads)
    for tokens, dtype in ((1, torch.float32), (64, torch.bfloat16), (2048, torch.float32), (2048, torch.bfloat16)):
        name, doors = f"{tokens} tokens, {str(dtype)[6:]}", torch_doors(torch, tokens, dtype)
        q, k = q_and_k(torch, tokens, dtype)
        yield f"{name}, no gradient", {door: functools.partial(torch.no_grad()(call), q, k) for door, call in doors.items()}
        grads, q, k = [torch.randn_like(x) for x in (q, k)], q.clone().requires_grad_(), k.clone().requires_grad_()
        both = lambda call, q=q, k=k, grads=grads: torch.autograd.grad(call(q, k), (q, k), grads)  # noqa: E731
        yield f"{name}, forward and backward", {door: functools.partial(both, call) for door, call in doors.items()}


def patch_cases(threads):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama import modeling_llama

    torch.set_num_threads(threads)
    rotary.set_num_threads(threads)
    torch.manual_seed(0)
    shape = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(**shape, num_hidden_layers=4, vocab_size=96)).eval()
    functions = {"original": modeling_llama.apply_rotary_pos_emb}
    report = rotary.patch(model)
    functions["patched"] = modeling_llama.apply_rotary_pos_emb

    def forward(function, ids):
        modeling_llama.apply_rotary_pos_emb = function
        model(input_ids=ids, use_cache=False)

    def cases(work, *given):
        return {name: functools.partial(torch.no_grad()(work), function, *given) for name, function in functions.items()}

    for dtype in (torch.float32, torch.bfloat16):
        for tokens in (1, 64, 2048):
            cos, sin = (torch.cat((rows, rows), -1).to(dtype) for rows in torch.randn(2, 1, tokens, HEAD_DIM // 2))
            yield f"{tokens} tokens, {str(dtype)[6:]}", cases(lambda function, *x: function(*x), *q_and_k(torch, tokens, dtype), cos, sin)
    for tokens in (1, 256):
        yield f"a model of 4 layers, {tokens} tokens", cases(forward, torch.zeros(1, tokens, dtype=torch.long))
    modeling_llama.apply_rotary_pos_emb = functions["patched"]
    report.undo()


def seconds(call, least=0.002):
    """Of one call, over as many as take `least`."""
    count, spent = 1, 0.0
    while spent < least and count < 1 << 17:
        begin = time.perf_counter()
        for _ in range(count):
            call()
        spent, taken = time.perf_counter() - begin, count
        count *= 2
    return spent / taken


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cases = {"torch": torch_cases, "patch": patch_cases}
    parser.add_argument("of", nargs="?", default="torch", choices=cases)
    parser.add_argument("--case", default="", help="cases whose names contain this; by default all")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    print(f"rotary {rotary.__version__} ({rotary.chosen_target()}), {given.threads} threads")
    for name, calls in cases[given.of](given.threads):
        if given.case not in name:
            continue
        for call in calls.values():
            seconds(call)  # the first compiles
        times = [[seconds(call) for call in calls.values()] for _ in range(given.rounds)]
        print(f"\n{name}")
        for door, taken in zip(calls, zip(*times)):
            ratio = statistics.median(one[0] / other for one, other in zip(times, taken))
            print(f"  {door:40} {ratio:6.2f}  {statistics.median(taken) * 1e6:10.2f} us  {min(taken) * 1e6:10.2f} us")


if __name__ == "__main__":
    main()
