"""torchtune, which reads of config.json how many heads there are: the builder of the hub's model, its layer's rope,
and the order in which its conversion of weights leaves the elements of a head."""
import importlib

import torch
from harness import hub_name, need, need_head, turn_reached
from torchtune.models.convert_weights import hf_to_tune

BUILDERS = {  # as torchtune's recipes name them for these repositories
    "meta-llama/Llama-2-7b-hf": "llama2.llama2_7b", "meta-llama/Meta-Llama-3-8B": "llama3.llama3_8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3_1.llama3_1_8b", "meta-llama/Llama-3.2-1B": "llama3_2.llama3_2_1b",
    "meta-llama/Llama-3.3-70B-Instruct": "llama3_3.llama3_3_70b", "google/gemma-7b": "gemma.gemma_7b",
    "google/gemma-2-9b": "gemma2.gemma2_9b", "microsoft/Phi-3-mini-4k-instruct": "phi3.phi3_mini",
    "microsoft/phi-4": "phi4.phi4_14b", "Qwen/Qwen2.5-7B-Instruct": "qwen2_5.qwen2_5_7b_instruct"}


def rotate(folder, case, q, positions):
    need(hub_name(case) in BUILDERS, "no builder of this name")
    module, name = BUILDERS[hub_name(case)].split(".")
    with torch.device("meta"):
        attention = getattr(importlib.import_module(f"torchtune.models.{module}"), name)().layers[case["layer"]].attn
    need_head(attention.head_dim, q)
    turns, order = attention.pos_embeddings, torch.arange(q.shape[1])
    turns.rope_init()  # as the recipes do behind a model on the meta device
    if module not in ("phi3", "phi4", "qwen2_5"):  # the conversions of these leave the order as it is
        numbers = {"model.layers.0.self_attn.q_proj.weight": order[:, None].clone()}
        order = next(iter(hf_to_tune(numbers, 1, 1, 1, q.shape[1]).values()))[:, 0]

    def turn(q, at):
        x = torch.tensor(q)[:, order][None, :, None]
        return turns(x, input_pos=torch.tensor(at)[None])[0, :, 0][:, torch.argsort(order)]

    return turn_reached(turn, len(turns.cache), q, positions)
