"""lmdeploy's PyTorch engine: the model of the config on the meta device, its rotary module and the apply function of
its attention, of the backend that the others are made on. What that backend leaves to them is a module of nothing."""
from unittest import mock

import lmdeploy.pytorch.backends.selector as selector
import torch
from harness import NotThere, OtherHead, main
from lmdeploy.pytorch.backends.default.op_backend import DefaultOpsBackend
from lmdeploy.pytorch.config import ModelConfig
from lmdeploy.pytorch.models.patch import BuildModelContext, build_model_from_hf_config


class Backend(DefaultOpsBackend):
    @classmethod
    def build_op(cls, spec, **how):
        try:
            return super().build_op(spec, **how)
        except (NotImplementedError, RuntimeError, ValueError):
            return mock.MagicMock()


selector._get_backend = lambda: Backend
torch.cuda.get_device_properties = lambda *_: mock.MagicMock(major=9, minor=0)  # the config asks which GPU it is
torch.cuda.current_device = lambda: 0


def rotate(folder, case, q, positions):
    config = ModelConfig.from_pretrained(folder, trust_remote_code=False, dtype="float32").hf_config
    model = build_model_from_hf_config(config, torch.float32, torch.device("meta"), None, BuildModelContext())
    turns = [m for name, m in model.named_modules() if name.split(".")[-1].startswith("rotary_")]
    layer = next(m for name, m in model.named_modules() if name.endswith(f"layers.{case['layer']}"))
    around = [m for m in layer.modules() if hasattr(m, "apply_rotary_pos_emb")]
    if len(turns) != 1 or len(around) != 1 or hasattr(around[0], "kv_b_proj"):
        raise NotThere("not one rotary module and one attention that hands it the head")
    x = torch.tensor(q)[:, None]
    cos, sin = (table[0] for table in turns[0](x[None], torch.tensor(positions)[None]))
    n = cos.shape[-1]
    if n > q.shape[1]:
        raise OtherHead(n)
    block = around[0]._extract_rope(x) if hasattr(around[0], "_extract_rope") else x[..., :n]
    block = around[0].apply_rotary_pos_emb(block, block.clone(), cos, sin, inplace=False)[0]
    return (around[0]._fill_rope(x, block) if hasattr(around[0], "_fill_rope") else
            torch.cat([block, x[..., n:]], -1))[:, 0]


if __name__ == "__main__":
    main(rotate)
