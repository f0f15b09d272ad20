"""mlx-lm on MLX's CPU: the model of the config (its weights stay unmade), and the rope of the layer's attention."""
import pathlib

import mlx.core as mx
import numpy as np
from mlx_lm.utils import _get_classes, load_config


def rotate(folder, case, q, positions):
    config = load_config(pathlib.Path(folder))
    model_class, args_class = _get_classes(config)
    layer = model_class(args_class.from_dict(config)).layers[case["layer"]]
    [rope] = [m for name, m in layer.named_modules() if name.split(".")[-1] in ("rope", "rotary_emb")]
    attention = next(m for _, m in layer.named_modules() if rope in m.children().values())
    begin = getattr(attention, "qk_nope_head_dim", 0)  # MLA hands its rope the end of the head
    x = mx.array(q[:, begin:])
    if case["length"]:  # a whole sequence at once, as a prompt is
        tokens = mx.zeros((case["length"], x.shape[1]))
        tokens[mx.array(positions)] = x
        return np.array(rope(tokens[None, None], offset=0)[0, 0][mx.array(positions)])
    return np.concatenate([np.array(rope(row[None, None, None], offset=int(p))[0, 0]) for row, p in zip(x, positions)])
