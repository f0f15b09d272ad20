"""PaddleFormers on the CPU: the model of the config (its weights stay unmade), its rotary module and the apply function
of its attention."""
import sys

import paddle
from harness import make_small, need_head
from paddleformers.transformers import AutoConfig, AutoModelForCausalLM


def rotate(folder, case, q, positions):
    make_small(folder, case["layer"])
    with paddle.LazyGuard():
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
    need_head(next(m.head_dim for m in model.sublayers() if hasattr(m, "o_proj")), q)
    x = paddle.to_tensor(q)[None, None]
    cos, sin = model.model.rotary_emb(x, paddle.to_tensor(positions)[None])
    return sys.modules[type(model).__module__].apply_rotary_pos_emb(x, x, cos, sin)[0][0, 0].numpy()
