"""The rotation again, by torch's own ops as frameworks write it, and what the torch tests share."""

import unittest

import rotary

try:
    import torch
except ImportError:
    torch = None

needs_torch = unittest.skipIf(torch is None, "torch is not installed")
PAIRINGS = ["half", "interleaved", "interleaved_to_half"]
SHAPES = {"bthd": (2, 5, 3, 16), "bhtd": (2, 3, 5, 16), "tbhd": (5, 2, 3, 16), "hbtd": (3, 2, 5, 16)}
SHAPES |= {"thd": (5, 3, 16), "htd": (3, 5, 16), "td": (5, 16), "btd": (2, 5, 16)}


def version():
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def table_of(pairing="half", positions=range(5), rotary_dim=12):
    return rotary.Table(rotary.Rope(head_dim=16, rotary_dim=rotary_dim, pairing=pairing), positions)


def rows_of(table, dtype=None):
    """cos and sin as tensors."""
    return tuple(torch.from_dlpack(rows).to(dtype or torch.float32) for rows in (table.cos, table.sin))


def eager(x, cos, sin, pairing, layout, first=0, backward=False):
    """x rotated by rows [tokens, pairs] or [batch, tokens, pairs], in the rows' type, one rounding to x's."""
    pairs = cos.shape[-1]
    named = {"b": cos.shape[0] if cos.dim() == 3 else 1, "t": cos.shape[-2], "h": 1}
    moved = cos.dim() == 3 and "t" in layout and layout.index("t") < layout.index("b")
    shape = [named[letter] for letter in layout[:-1]] + [pairs]
    c, s = ((rows.transpose(0, 1) if moved else rows).reshape(shape) for rows in (cos, sin))
    wide = x.to(cos.dtype)
    block = wide[..., first : first + 2 * pairs]
    crossed = pairing == "interleaved_to_half"
    if pairing == "half" or (crossed and backward):
        a, b = block[..., :pairs], block[..., pairs:]
    else:
        a, b = block[..., 0::2], block[..., 1::2]
    s = -s if backward else s
    y = a * c - b * s, b * c + a * s
    turned = torch.cat(y, -1) if pairing == "half" or (crossed and not backward) else torch.stack(y, -1).flatten(-2)
    return torch.cat((x[..., :first], turned.to(x.dtype), x[..., first + 2 * pairs :]), -1)
