"""Helpers of the torch tests."""

import contextlib
import functools
import types
import unittest
from unittest import mock

import rotary
from support import PAIRINGS, refused, rotated  # noqa: F401

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


def rope_of(pairing="half", rotary_dim=12):
    return rotary.Rope(head_dim=16, rotary_dim=rotary_dim, pairing=pairing)


def table_of(pairing="half", positions=range(5)):
    return rotary.Table(rope_of(pairing), positions)


def rows_of(table, dtype=None):
    """cos and sin as tensors."""
    return tuple(torch.tensor(rows).to(dtype or torch.float32) for rows in (table.cos, table.sin))


def turned(x, table, layout):
    """x rotated by the formula in numpy, rounded once."""
    y = rotated(x.float().numpy(), table.cos, table.sin, table.pairing, layout)
    return torch.from_numpy(y).to(x.dtype)


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
