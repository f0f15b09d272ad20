"""litgpt, which reads no config.json: the model that it knows by the hub's name, its cache and its apply function."""
import torch
from harness import NotThere, OtherHead, hub_name, main
from litgpt.config import Config
from litgpt.model import GPT, apply_rope, apply_rope_interleave


def rotate(folder, case, q, positions):
    try:
        config = Config.from_name(hub_name(case))
    except ValueError:
        raise NotThere("no model of this name") from None
    if config.head_size != q.shape[1]:
        raise OtherHead(config.head_size)
    with torch.device("meta"):
        model = GPT(config)
    cos, sin = model.rope_cache(torch.device("cpu"))
    if config.rope_indices is not None:
        cos, sin = (x[..., config.rope_indices[case["layer"]]] for x in (cos, sin))
    positions, q, n = torch.tensor(positions), torch.tensor(q), config.rope_n_elem
    reached = positions < len(cos)
    apply = apply_rope_interleave if config.rope_interleave else apply_rope
    turned = apply(q[reached, :n][None, None], *(x[positions[reached]][None] for x in (cos, sin)))[0, 0]
    q[reached] = torch.cat([turned, q[reached, n:]], 1)
    q[~reached] = float("nan")
    return q


if __name__ == "__main__":
    main(rotate)
