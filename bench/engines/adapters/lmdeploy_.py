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
        with torch.device("cpu"):
            try:
                return super().build_op(spec, **how)
            except (NotImplementedError, RuntimeError, ValueError):
                return mock.MagicMock()


selector._get_backend = lambda: Backend


def rotate(folder, case, q, positions):
    config = ModelConfig.from_pretrained(folder, trust_remote_code=False, dtype="float32").hf_config
    with torch.device("meta"):
        model = build_model_from_hf_config(config, torch.float32, torch.device("meta"), None, BuildModelContext())
    turns = [m for name, m in model.named_modules() if name.split(".")[-1].startswith("rotary_")]
    layer = next(m for name, m in model.named_modules() if name.endswith(f"layers.{case['layer']}"))
    applies = [m for name, m in layer.named_modules() if name.endswith("apply_rotary_pos_emb")]
    if len(turns) != 1 or len(applies) != 1:
        raise NotThere(f"{len(turns)} rotary modules")
    x = torch.tensor(q)[:, None]
    cos, sin = (table[0] for table in turns[0](x[None], torch.tensor(positions)[..., None, :]))
    if cos.shape[-1] > q.shape[1]:
        raise OtherHead(cos.shape[-1])
    n = cos.shape[-1]  # the models hand on the block that turns
    turned = applies[0](x[..., :n], x[..., :n].clone(), cos, sin, inplace=False)[0]
    return torch.cat([turned, x[..., n:]], -1)[:, 0]


if __name__ == "__main__":
    main(rotate)
