"""Writes cli/tests/golden/diffusers_rotation.json: vectors rotated by diffusers' own modules, of the models whose heads
no single rope of one pairing rotates: Mochi has learned directions, Allegro three blocks.

    make_diffusers_rotation.py      PYTHONPATH has diffusers 0.42.1
"""
import json
from unittest import mock

import torch
from diffusers.models import embeddings
from diffusers.models.attention_processor import MochiAttention, MochiAttnProcessor2_0
from diffusers.models.transformers import transformer_mochi

from files import ROOT

FRAMES, HEIGHT, WIDTH, HEADS = 2, 2, 3, 2


def flat(tensor):
    return [float(f"{x:.9g}") for x in tensor.flatten().tolist()]


def allegro(x):
    """head_dim 12; x is [tokens, heads, head_dim]."""
    rows = embeddings.get_3d_rotary_pos_embed_allegro(
        x.shape[-1], ((0, 0), (HEIGHT, WIDTH)), (HEIGHT, WIDTH), FRAMES, (2.2, 2.0, 2.0))[:3]
    ids = torch.cartesian_prod(*(torch.arange(n) for n in (FRAMES, HEIGHT, WIDTH))).T
    turned = embeddings.apply_rotary_emb_allegro(x.transpose(0, 1)[None], list(rows), [i[None] for i in ids])
    return {"positions": ids.tolist(), "x": flat(x), "rotated": flat(turned[0].transpose(0, 1))}


def mochi(x, generator):
    """head_dim 8: the module's query before and after its attention's own apply function."""
    directions = 0.3 * torch.randn(3, HEADS, x.shape[-1] // 2, generator=generator)
    rope = transformer_mochi.MochiRoPE()
    rows = rope(directions, FRAMES, HEIGHT, WIDTH, dtype=torch.float32)
    attention = MochiAttention(query_dim=16, added_kv_proj_dim=16, processor=MochiAttnProcessor2_0(),
                               heads=HEADS, dim_head=x.shape[-1], added_proj_bias=False, out_dim=16)
    seen = []
    attention.to_q = attention.norm_q = torch.nn.Identity()
    kept, tokens = torch.nn.functional.scaled_dot_product_attention, x.shape[0]
    with mock.patch("torch.nn.functional.scaled_dot_product_attention",
                    lambda q, k, v, **_: seen.append(q) or kept(q, k, v)):
        attention(x.flatten(1)[None], encoder_hidden_states=torch.zeros(1, 1, 16),
                  attention_mask=torch.ones(1, 1, dtype=torch.bool), image_rotary_emb=rows)
    positions = rope._get_positions(FRAMES, HEIGHT, WIDTH, dtype=torch.float32)
    return {"pos_frequencies": flat(directions), "positions": positions.double().T.tolist(), "x": flat(x),
            "rotated": flat(seen[0][0, :, :tokens].transpose(0, 1))}


generator = torch.Generator().manual_seed(34)
tokens = FRAMES * HEIGHT * WIDTH
values = [torch.randn(tokens, HEADS, width, generator=generator) for width in (12, 8)]
with torch.no_grad():
    turned = {"allegro": allegro(values[0]), "mochi": mochi(values[1], generator)}
    (ROOT / "cli/tests/golden/diffusers_rotation.json").write_text(json.dumps(turned) + "\n")
