"""The rotation by torch's own ops, as frameworks write it, and helpers of the torch tests."""

import contextlib
import functools
import types
import unittest
from unittest import mock

import rotary
from support import PAIRINGS, refused  # noqa: F401

try:
    import torch
except ImportError:
    torch = Seen = None

if torch is not None:
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        """Counts the ops of rotary, as a profiler or selective checkpointing does."""

        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if "rotary." in str(func):
                self.names.append(str(func))
            return func(*args, **(kwargs or {}))

needs_torch = unittest.skipIf(torch is None, "torch is not installed")


def table_of(pairing="half", positions=range(5), rotary_dim=12):
    return rotary.Table(rotary.Rope(head_dim=16, rotary_dim=rotary_dim, pairing=pairing), positions)


def rows_of(table, dtype=None):
    """cos and sin as tensors."""
    return tuple(torch.tensor(rows).to(dtype or torch.float32) for rows in (table.cos, table.sin))


def eager(x, cos, sin, pairing, layout, first=0, backward=False):
    """x rotated by rows [tokens, pairs] or [batch, tokens, pairs] in the rows' type, with one rounding to x's type."""
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


def turned(x, table, layout, **words):
    """x rotated by eager() with the rows of a table."""
    rows = rows_of(table, torch.float64 if x.dtype == torch.float64 else torch.float32)
    return eager(x, *rows, table.pairing, layout, **words)


@contextlib.contextmanager
def straight_calls():
    """Lists the calls that the C++ part does without an op."""
    calls = []

    def counted(name, *arguments):
        done = getattr(rotary._core, name)(*arguments)
        calls.extend([name] if done is not None else [])
        return done

    names = "rotate", "rotate_qk"
    core = types.SimpleNamespace(**{name: functools.partial(counted, name) for name in names})
    with mock.patch.object(rotary._rotating, "_core", core):
        yield calls
