"""litgpt, which reads no config.json: the model that it knows by the hub's name, its cache and its apply function."""
import torch
from harness import hub_name, need_head, turn_reached
from litgpt.config import Config
from litgpt.model import GPT, apply_rope, apply_rope_interleave


def rotate(folder, case, q, positions):
    config = Config.from_name(hub_name(case))
    need_head(config.head_size, q)
    with torch.device("meta"):
        model = GPT(config)
    cos, sin = model.rope_cache(torch.device("cpu"))
    if config.rope_indices is not None:
        cos, sin = (x[..., config.rope_indices[case["layer"]]] for x in (cos, sin))
    apply = apply_rope_interleave if config.rope_interleave else apply_rope

    def turn(q, at):
        block, rest = torch.tensor(q).tensor_split([config.rope_n_elem], 1)
        return torch.cat([apply(block[None, None], cos[at][None], sin[at][None])[0, 0], rest], 1)

    return turn_reached(turn, len(cos), q, positions)
