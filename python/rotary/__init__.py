"""Rotary position embeddings (RoPE) for every published model, exact and tested.

    Rope -> frequencies() -> Table(positions) -> rotate(your arrays)

    import rotary
    ropes = rotary.config("Llama-3.1-8B/")                 # or a dict, a PretrainedConfig, JSON
    table = ropes[0].table(range(2048))                    # exact cos and sin, one for all layers
    q, k = rotary.rotate_qk(q, k, table, layout="bthd")    # numpy, torch or JAX in, the same kind out

Pairing and layout have no default. Errors are rotary.Error, a ValueError with a code.
"""

import os as _os
from collections.abc import Sequence  # for the classes' annotations, like other imports
from typing import TYPE_CHECKING, Any, ClassVar

from . import _core, positions
from ._config import ModelRope, PatchError, Ropes, config, patch, query_scale
from ._core import Error, __version__, chosen_target, get_num_threads, self_test, set_num_threads, targets, use_target
from ._rotating import from_doubled, from_rows
from ._rotating import rotate, rotate_, rotate_backward, rotate_qk, rotate_qk_, rotate_qkv, rotate_qkv_
from ._tables import Frequencies, Table, between, frequencies
from ._tools import accuracy, check, convert, diagnose, extend
from ._values import (
    Axis, Dynamic, Linear, Llama3, LongRope, Ntk, NtkFixed, Proportional, Rope, Scaling, ThetaScale, Unscaled, XPos,
    Yarn, YarnLog, axial, ernie_axes, interleaved_axes, rope_parameters, sectioned_axes
)
from ._words import Angles, Direction, Layout, Pairing, Rounding, Stores

__all__ = [
    "Axis", "Dynamic", "Error", "Frequencies", "Linear", "Llama3", "LongRope", "ModelRope", "Ntk", "NtkFixed",
    "PatchError", "Proportional", "Rope", "Ropes", "Scaling", "Table", "ThetaScale", "Unscaled", "XPos", "Yarn",
    "YarnLog", "__version__", "accuracy", "axial", "between", "check", "chosen_target", "config", "convert",
    "diagnose", "ernie_axes", "extend", "frequencies", "from_doubled", "from_rows", "get_num_threads",
    "interleaved_axes", "patch", "positions", "query_scale", "rope_parameters", "rotate", "rotate_", "rotate_backward",
    "rotate_qk", "rotate_qk_", "rotate_qkv", "rotate_qkv_", "sectioned_axes", "self_test", "set_num_threads",
    "targets", "use_target",
]

if TYPE_CHECKING:
    from . import jax, makers, plot, torch

if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_core._forget_threads)


# Modules that are imported when first used, and the package that each needs.
_LATE = {"jax": "jax", "makers": "rotary", "plot": "matplotlib", "torch": "torch"}


def __dir__() -> list[str]:
    from importlib.util import find_spec

    return sorted({*globals(), *(name for name, needed in _LATE.items() if find_spec(needed))})


def __getattr__(name: str) -> object:
    if name in _LATE:
        import importlib

        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'rotary' has no attribute '{name}'")
