"""Rotary position embeddings (RoPE) for every published model, exact and tested.

    import rotary
    rope = rotary.RotaryEmbedding("Llama-3.1-8B/", layout="bhtd")     # torch: a module without buffers
    q, k = rope(q, k, offset=cache_length)
    table = rotary.Table(rotary.config("Llama-3.1-8B/"), range(2048))  # exact cos and sin, one for all layers
    q, k = rotary.rotate_qk(q, k, table, layout="bthd")                # numpy, torch or JAX in, the same kind out

RotaryEmbedding needs torch: help(rotary.RotaryEmbedding). The modules are rotary.scalings (Yarn, Llama3, ...), makers
(axes, directions, Frequencies), positions, tools (diagnose, extend, convert, accuracy, plot), cpu, torch and jax.
Pairing and layout have no default. Errors are rotary.Error, a ValueError with a code.
"""

import os as _os
from collections.abc import Sequence  # and other names in annotations of the classes, for typing.get_type_hints()
from dataclasses import InitVar
from typing import TYPE_CHECKING, Any

from . import _core, cpu, makers, positions, scalings, tools
from ._config import config, patch, use_models
from ._core import Error, __version__, set_num_threads
from ._rope import Rope
from ._rotating import from_doubled, from_rows, rotate, rotate_, rotate_qk, rotate_qk_
from ._tables import Table, frequencies
from ._words import Pairing
from .scalings import Scaling, XPos
from .tools import check

# All but RotaryEmbedding, so that `from rotary import *` does without torch.
__all__ = [
    "Error", "Rope", "Table", "check", "config", "frequencies", "from_doubled", "from_rows", "patch", "rotate",
    "rotate_", "rotate_qk", "rotate_qk_", "set_num_threads", "use_models",
]

if TYPE_CHECKING:
    from . import jax, torch
    from .torch import RotaryEmbedding as RotaryEmbedding

_core._own_models(_os.path.join(_os.path.dirname(__file__), "models.json"))
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_core._forget_threads)


# Names whose module is imported when they are first used, and that module; each needs the library of its name.
_LATE = {"RotaryEmbedding": "torch", "jax": "jax", "torch": "torch"}


def __dir__() -> list[str]:
    from importlib.util import find_spec

    here = {*__all__, "cpu", "makers", "positions", "scalings", "tools", *(n for n in globals() if n[:2] == "__")}
    return sorted(here | {name for name, needed in _LATE.items() if find_spec(needed)})


def __getattr__(name: str) -> object:
    if name in _LATE:
        import importlib

        module = importlib.import_module("." + _LATE[name], __name__)
        return module if name == _LATE[name] else getattr(module, name)
    raise AttributeError(f"module 'rotary' has no attribute '{name}'")
