"""lmdeploy's PyTorch engine: the rotary module and the attention's apply function of the config's model, on the meta
device and of the backend that the others are made on. What that backend leaves to them is a module of nothing."""
from unittest import mock

import lmdeploy.pytorch.backends.selector as selector
import torch
from harness import need, need_head
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
    config = ModelConfig.from_pretrained(folder, dtype="float32").hf_config
    model = build_model_from_hf_config(config, torch.float32, torch.device("meta"), None, BuildModelContext())
    [turns] = [m for name, m in model.named_modules() if name.split(".")[-1].startswith("rotary_")]
    [around] = [m for name, m in model.named_modules()
                if f"layers.{case['layer']}." in name and hasattr(m, "apply_rotary_pos_emb")]
    need(not hasattr(around, "kv_b_proj"), "its attention does not hand the rope the head")
    x = torch.tensor(q)[:, None]
    cos, sin = (table[0] for table in turns(x[None], torch.tensor(positions)[None]))
    n = cos.shape[-1]
    need_head(max(n, q.shape[1]), q)  # a block is at most the head
    block = around._extract_rope(x) if hasattr(around, "_extract_rope") else x[..., :n]
    block = around.apply_rotary_pos_emb(block, block.clone(), cos, sin, inplace=False)[0]
    return (around._fill_rope(x, block) if hasattr(around, "_fill_rope") else torch.cat([block, x[..., n:]], -1))[:, 0]
