# mypy: disable-error-code="no-any-return"
"""rotate and its family, for arrays of every kind.

Torch's tensors go to rotary._torch, everything else to the C++ part, whose functions take their arguments by place.
"""

from __future__ import annotations

import sys

from . import _core

_modules = sys.modules  # torch is not imported here: where there is a tensor, it is among these

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal, TypeAlias, TypeVar

    from ._values import Layout, Pairing
    from .torch import TensorTable

    _A = TypeVar("_A")
    _Q = TypeVar("_Q")
    _K = TypeVar("_K")
    AnyTable: TypeAlias = _core.Table | TensorTable
    Direction = Literal["forward", "backward"]
    Stores = Literal["automatic", "cached", "streaming"]


def rotate(
    x: _A,
    table: AnyTable,
    *,
    layout: Layout | None = None,
    out: _A | None = None,
    first: int = 0,
    direction: Direction = "forward",
    stores: Stores = "automatic",
) -> _A:
    """Rotate heads by a table: (a, b) -> (a cos - b sin, b cos + a sin).

    The first table.rotary_dim elements of each head turn, in float32 without fused multiply-add; the others keep their
    bits. float16 and bfloat16 are rounded once, to nearest even. rotate_qk() says which arrays are taken.

    Args:
        x: float32, float16 or bfloat16 (torch: float64 too), of any strides but of the last dimension; as layout says.
        table: a rotary.Table, or what rotary.from_rows and rotary.from_doubled gave, of as many tokens; its batch is
            1 or that of the tensor.
        layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: "bthd", "bhtd", "tbhd",
            "thd", "htd", "td", "hd", ... No default.
        out: where the result goes. None: a new array of the same kind. Torch records no gradient into it.
        first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).
        direction: "forward", or "backward" for the gradient, the transposed map.
        stores: a matter of speed: "automatic", "cached" (the result is read at once) or "streaming".

    Returns:
        out, or a new array of the kind, element type and shape of x.

    Raises:
        rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient that out or the place cannot record).
        TypeError: what is no array, or no table.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        import rotary._torch.entry as entry

        return entry.rotate(x, table, layout, out, first, direction, stores)
    return _core.rotate(x, table, layout, out, first, direction, stores)


def rotate_(
    x: _A,
    table: AnyTable,
    *,
    layout: Layout | None = None,
    first: int = 0,
    direction: Direction = "forward",
) -> _A:
    """Rotate heads in place.

    Args:
        x: as of rotate(), writable.
        table: a rotary.Table, or what rotary.from_rows and rotary.from_doubled gave, of as many tokens; its batch is
            1 or that of the tensor.
        layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: "bthd", "bhtd", "tbhd",
            "thd", "htd", "td", "hd", ... No default.
        first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).
        direction: "forward", or "backward" for the gradient, the transposed map.

    Returns:
        x.

    Raises:
        rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient that out or the place cannot record).
        TypeError: what is no array, or no table.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        import rotary._torch.entry as entry

        return entry.rotate_(x, table, layout, first, direction)
    return _core.rotate_(x, table, layout, first, direction)


def rotate_backward(
    grad: _A,
    table: AnyTable,
    *,
    layout: Layout | None = None,
    out: _A | None = None,
    first: int = 0,
    stores: Stores = "automatic",
) -> _A:
    """The gradient of rotate(x, table) with respect to x: the transposed map.

    It undoes rotate() only if the table's attention factor is 1.

    Args:
        grad: the gradient of the result, as x of rotate().
        table: a rotary.Table, or what rotary.from_rows and rotary.from_doubled gave, of as many tokens; its batch is
            1 or that of the tensor.
        layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: "bthd", "bhtd", "tbhd",
            "thd", "htd", "td", "hd", ... No default.
        out: where the result goes. None: a new array of the same kind. Torch records no gradient into it.
        first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).
        stores: a matter of speed: "automatic", "cached" (the result is read at once) or "streaming".

    Returns:
        out, or a new array of the kind, element type and shape of grad.

    Raises:
        rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient that out or the place cannot record).
        TypeError: what is no array, or no table.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(grad, torch.Tensor):
        import rotary._torch.entry as entry

        return entry.rotate_backward(grad, table, layout, out, first, stores)
    return _core.rotate_backward(grad, table, layout, out, first, stores)


def rotate_qk(
    q: _Q,
    k: _K,
    table: AnyTable,
    *,
    layout: Layout | None = None,
    out: tuple[_Q, _K] | None = None,
    first: int = 0,
    direction: Direction = "forward",
    stores: Stores = "automatic",
) -> tuple[_Q, _K]:
    """Rotate queries and keys in one call.

    q and k may differ in heads, head_dim, strides and element type. What is taken, and what can be done with it:

        arrays           element types                autograd   compile, export   vmap   result
        numpy            float32, float16, bfloat16   -          -                 -      numpy
                         of ml_dtypes
        torch, CPU       float32, float16, bfloat16   any order  yes               yes    torch
        torch, CPU       float64                      any order  yes               yes    torch, by torch's own ops
        torch, others    float32, float16, bfloat16,  any order  yes               yes    torch, by torch's own ops
        (CUDA, ...)      float64
        JAX, CPU         float32, float16, bfloat16   -          -                 -      JAX; never in place; traced:
                                                                                         rotary.jax
        __dlpack__       float32, float16, bfloat16   -          -                 -      numpy, or memoryview where
        a buffer         float32, float16             -          -                 -      it is not installed; of
                                                                                         bfloat16 only in place or out=

    Autograd is in q, k, and in the cos and sin of a table that rotary.from_rows or rotary.from_doubled made of tensors:
    backward and forward mode, torch.func, checkpoints. A new array has its dimensions in memory as q's has.

    Args:
        q: queries, as x of rotate(): [batch, heads, tokens, head_dim] with layout="bhtd".
        k: keys, in the same layout.
        table: a rotary.Table, or what rotary.from_rows and rotary.from_doubled gave, of as many tokens; its batch is
            1 or that of the tensor.
        layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: "bthd", "bhtd", "tbhd",
            "thd", "htd", "td", "hd", ... No default.
        out: (q_out, k_out), where the results go. None: new arrays of the same kind. Torch records no gradient into it.
        first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).
        direction: "forward", or "backward" for the gradient, the transposed map.
        stores: a matter of speed: "automatic", "cached" (the result is read at once) or "streaming".

    Returns:
        (q, k), rotated.

    Raises:
        rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient that out or the place cannot record).
        TypeError: what is no array, or no table.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        import rotary._torch.entry as entry

        return entry.rotate_qk(q, k, table, layout, out, first, direction, stores)
    return _core.rotate_qk(q, k, table, layout, out, first, direction, stores)


def rotate_qk_(
    q: _Q,
    k: _K,
    table: AnyTable,
    *,
    layout: Layout | None = None,
    first: int = 0,
    direction: Direction = "forward",
) -> tuple[_Q, _K]:
    """Rotate queries and keys in place, in one call.

    Args:
        q: queries, writable.
        k: keys, writable, in the same layout.
        table: a rotary.Table, or what rotary.from_rows and rotary.from_doubled gave, of as many tokens; its batch is
            1 or that of the tensor.
        layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: "bthd", "bhtd", "tbhd",
            "thd", "htd", "td", "hd", ... No default.
        first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).
        direction: "forward", or "backward" for the gradient, the transposed map.

    Returns:
        (q, k).

    Raises:
        rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient that out or the place cannot record).
        TypeError: what is no array, or no table.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(q, torch.Tensor):
        import rotary._torch.entry as entry

        return entry.rotate_qk_(q, k, table, layout, first, direction)
    return _core.rotate_qk_(q, k, table, layout, first, direction)


def rotate_qkv(
    qkv: _A,
    table: AnyTable,
    kv_heads: int,
    *,
    layout: Layout | None = None,
    out: _A | None = None,
    first: int = 0,
    direction: Direction = "forward",
    stores: Stores = "automatic",
) -> _A:
    """Rotate the q and k of a packed tensor.

    Args:
        qkv: its heads are those of q, then kv_heads of k, then kv_heads of v, which is copied.
        table: a rotary.Table, or what rotary.from_rows and rotary.from_doubled gave, of as many tokens; its batch is
            1 or that of the tensor.
        kv_heads: how many heads k and v have each.
        layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: "bthd", "bhtd", "tbhd",
            "thd", "htd", "td", "hd", ... No default.
        out: where the result goes. None: a new array of the same kind. Torch records no gradient into it.
        first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).
        direction: "forward", or "backward" for the gradient, the transposed map.
        stores: a matter of speed: "automatic", "cached" (the result is read at once) or "streaming".

    Returns:
        out, or a new array of the kind, element type and shape of qkv.

    Raises:
        rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient that out or the place cannot record).
        TypeError: what is no array, or no table.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(qkv, torch.Tensor):
        import rotary._torch.entry as entry

        return entry.rotate_qkv(qkv, table, kv_heads, layout, out, first, direction, stores)
    return _core.rotate_qkv(qkv, table, kv_heads, layout, out, first, direction, stores)


def rotate_qkv_(
    qkv: _A,
    table: AnyTable,
    kv_heads: int,
    *,
    layout: Layout | None = None,
    first: int = 0,
    direction: Direction = "forward",
) -> _A:
    """Rotate the q and k of a packed tensor in place; v keeps its bits.

    Args:
        qkv: its heads are those of q, then kv_heads of k, then kv_heads of v; writable.
        table: a rotary.Table, or what rotary.from_rows and rotary.from_doubled gave, of as many tokens; its batch is
            1 or that of the tensor.
        kv_heads: how many heads k and v have each.
        layout: the order of the dimensions, b batch, t tokens, h heads, d head_dim last: "bthd", "bhtd", "tbhd",
            "thd", "htd", "td", "hd", ... No default.
        first: the element of each head where the rotated block begins (ropes[0].first of rotary.config).
        direction: "forward", or "backward" for the gradient, the transposed map.

    Returns:
        qkv.

    Raises:
        rotary.Error: SHAPE, DTYPE, ALIAS, DEVICE, VALUE, TORCH (a gradient that out or the place cannot record).
        TypeError: what is no array, or no table.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(qkv, torch.Tensor):
        import rotary._torch.entry as entry

        return entry.rotate_qkv_(qkv, table, kv_heads, layout, first, direction)
    return _core.rotate_qkv_(qkv, table, kv_heads, layout, first, direction)


def from_rows(cos: Any, sin: Any, *, pairing: Pairing | None = None, repeated: bool = False) -> AnyTable:
    """A table of rows with one column for each pair, as flash-attn and vLLM keep them.

    Args:
        cos: floats [tokens, pairs] or [batch, tokens, pairs]. Of torch's tensors the table holds the tensors
            themselves (a rotary.torch.TensorTable): on any device, a gradient reaches them, torch.compile traces them.
            Of other arrays it is a rotary.Table with a copy; float64 is rounded to float32.
        sin: likewise.
        pairing: "half", "interleaved" or "interleaved_to_half". No default.
        repeated: takes rows whose columns are equal two by two, which are refused as doubled otherwise (of tensors:
            on the CPU and outside of torch.compile).

    Raises:
        rotary.Error: SHAPE, DTYPE, PAIRING.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(cos, torch.Tensor):
        import rotary._torch.tables as tables

        return tables.from_rows(cos, sin, pairing, repeated)
    return _core.from_rows(cos, sin, pairing, repeated)


def from_doubled(
    cos: Any, sin: Any, *, pairing: Pairing | None = None, doubled: Literal["halves", "neighbours"] | None = None
) -> AnyTable:
    """A table of doubled rows, as Hugging Face's models make them: each column twice.

    Args:
        cos: floats [tokens, 2 * pairs] or [batch, tokens, 2 * pairs], doubled in two halves or, where the pairing is
            not "half", also side by side. Of torch's tensors the table holds the tensors themselves (a
            rotary.torch.TensorTable), and the gradient goes to the column that is read, the first of the two. Of other
            arrays it is a rotary.Table with a copy; float64 is rounded to float32.
        sin: likewise.
        pairing: "half", "interleaved" or "interleaved_to_half". No default.
        doubled: "halves" or "neighbours"; by default that is seen from the numbers. Tensors that cannot be read
            (compiled, on another device) are not checked, and need it where the pairing is not "half".

    Raises:
        rotary.Error: SHAPE (they are not doubled), DTYPE, PAIRING, VALUE.
    """
    torch = _modules.get("torch")
    if torch is not None and isinstance(cos, torch.Tensor):
        import rotary._torch.tables as tables

        return tables.from_doubled(cos, sin, pairing, doubled)
    return _core.from_doubled(cos, sin, pairing, doubled)
