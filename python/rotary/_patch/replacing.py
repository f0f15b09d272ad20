# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The function that takes the place of a proved one: a closure made for its shape, so that it does not slow a model."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .._core import Error
from .._torch import cuda, entry
from .._torch.tables import TensorTable
from .probes import Proof


def has_kernels(device: torch.device) -> bool:
    """Whether rotary has kernels for tensors there."""
    return device.type == "cpu" or (device.type == "cuda" and cuda.BUILT)


def why_kept(proof: Proof) -> str:
    """Why a proved function stays as it is; "" where it is of the usual shape, and replacement() is for it."""
    convention = proof.convention
    if proof.bits == "float64":
        return "it rotates in float64, which is more exact than rotary's float32"
    if (
        len(convention.tensors) != 2
        or convention.names[:4] != (*convention.tensors, convention.cos[1], convention.sin[1])
        or convention.gathers
        or proof.behaviour.rows not in ("halves", "neighbours")
        or (proof.behaviour.clockwise and proof.behaviour.pairing == "interleaved_to_half")
        or proof.block == "trailing"
        or not any(shape.rows == "bt" and "h" in shape.x for shape in proof.shapes)
    ):
        return "it is not of the usual shape, q and k by doubled rows, that rotary turns faster"
    return ""


def replacement(original: Callable[..., Any], proof: Proof, named_as: Callable[..., Any]) -> Callable[..., Any]:
    """A function that does what original was proved to do, by rotary.

    Calls outside of what was proved (another dtype, rows that are broadcast in another way, an option that is not at
    its default) run the original.

    Args:
        named_as: whose name, docstring and signature it keeps.
    """
    unsqueeze, whole = proof.convention.unsqueeze, proof.block == "whole"
    usual, words = proof.convention.defaults.get(unsqueeze), {unsqueeze}
    pairing, doubled = proof.behaviour.pairing, proof.behaviour.rows
    direction = "backward" if proof.behaviour.clockwise else "forward"
    # Rows [batch, tokens, columns] may have a batch of 1.
    layouts = {
        (len(shape.x), len(shape.rows) + 1, shape.unsqueeze): shape.x
        for shape in proof.shapes
        if shape.rows in ("bt", "t") and "h" in shape.x and not shape.prefix
    }
    dtypes = {(x, x, rows) for (x, rows), result in proof.dtypes.items() if result == x}

    @functools.wraps(named_as, updated=())
    def by_rotary(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 4 and (not kwargs or kwargs.keys() == words) and args[1] is not None:
            q, k, cos, sin = args
            layout = layouts.get((q.dim(), cos.dim(), kwargs.get(unsqueeze, usual)))
            if layout is not None and (q.dtype, k.dtype, cos.dtype) in dtypes:
                if not whole or q.shape[-1] == cos.shape[-1] == k.shape[-1]:
                    table = TensorTable(cos, sin, pairing, doubled)
                    try:
                        return entry.rotate_qk("rotate_qk", q, k, table, layout, None, None, 0, direction, "automatic")
                    except Error:  # rows of other shapes
                        pass
        return original(*args, **kwargs)

    by_rotary.__dict__["__rotary_original__"] = original
    return by_rotary
