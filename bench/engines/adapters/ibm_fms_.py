"""ibm-fms: the model of the config on the meta device, its position encoder, and the order in which its adapter of
Hugging Face's weights leaves the elements of a head."""
import torch
from fms import models
from fms.models.hf.utils import infer_model_configuration
from fms.utils import serialization
from harness import need_head


def rotate(folder, case, q, positions):
    made = infer_model_configuration(folder, download_weights=False)
    name, variant = made.pop("architecture"), made.pop("variant")
    with torch.device("meta"):
        model = models._get_model_instance(name, variant, extra_args=made)
    attention = next(m for n, m in model.named_modules()
                     if f"layers.{case['layer']}." in n and hasattr(m, "position_encoder"))
    need_head(attention.emb_kq_per_head, q)
    heads = {"q": attention.nheads, "k": attention.kvheads, "v": attention.kvheads}
    where = ("language_model." if hasattr(model, "language_model") else "") + "model.layers.0.self_attn"
    numbers = {f"{where}.{part}_proj.weight": torch.arange(n * q.shape[1])[:, None] for part, n in heads.items()}
    adapted = serialization.get_adapted(name, "hf", numbers, {"model_config": model.config})
    order = next(x for n, x in adapted.items() if "in_proj.q" in n)[:q.shape[1], 0]
    x = torch.tensor(q)[:, None, None, order]
    turned, _ = attention.position_encoder.adjusted_qk(x, x, torch.tensor(positions)[:, None])
    return turned[:, 0, 0, torch.argsort(order)]
