"""Rotary position embeddings in JAX: inside jit, grad, vmap, scan and shard_map. Needs jax 0.5.0 or newer.

    cos, sin = rotary.jax.table(rope, positions)          # exact rows, also for traced positions
    q, k = rotary.jax.rotate_qk(q, k, cos, sin, pairing="half", layout="bthd")

The rotation is the formula in JAX's own operations, in float32 with one rounding (float64: in float64), so that XLA
fuses, shards and differentiates it like everything else. Errors are raised when a call is traced.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import jax  # type: ignore[import-not-found]
import jax.numpy as jnp  # type: ignore[import-not-found]
import numpy as np  # type: ignore[import-not-found]

from ._rotating import refuse_doubled
from ._tables import Table, frequencies, refuse_xpos
from ._words import Direction, Layout, Pairing, fail
from ._words import check_heads, check_layout, check_pairing, check_rows, check_scale, check_word

__all__ = ["rotate", "rotate_qk", "table"]


def rotate(
    x: jax.Array, cos: jax.Array | Table, sin: jax.Array | None = None, *,
    pairing: Pairing | None = None, layout: Layout, first: int = 0, direction: Direction = "forward",
    repeated: bool = False,
) -> jax.Array:  # fmt: skip
    """Rotate heads by rows of cos and sin. On a CPU, float32 and 16-bit floats give the bits of rotary.rotate.

    Args:
        x: float32, float16, bfloat16 or float64, as layout says.
        cos, sin: [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs], of floats; or instead of
            both a rotary.Table.
        pairing: "half", "interleaved" or "interleaved_to_half". No default; a Table has its own.
        layout, first, direction: as in rotary.rotate.
        repeated: accepts rows whose columns are equal in pairs. Without it such rows are refused as doubled, unless
            they are traced.

    Raises:
        rotary.Error: SHAPE, DTYPE, PAIRING, VALUE.
    """
    return _checked("rotate", {"x": x}, cos, sin, pairing, layout, first, direction, repeated, None)[0]


def rotate_qk(
    q: jax.Array, k: jax.Array, cos: jax.Array | Table, sin: jax.Array | None = None, *,
    pairing: Pairing | None = None, layout: Layout, first: int = 0, direction: Direction = "forward",
    repeated: bool = False, query_scale: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:  # fmt: skip
    """Rotate q and k, which may differ in heads, head_dim and dtype. query_scale: as in rotary.rotate_qk."""
    words = pairing, layout, first, direction, repeated, query_scale
    refuse_xpos("rotate_qk", cos)
    q, k = _checked("rotate_qk", {"q": q, "k": k}, cos, sin, *words)
    return q, k


def table(source: Any, positions: Any = None, length: int | None = None) -> tuple[jax.Array, jax.Array]:
    """The exact cos and sin of a rotary.Table, or of rotary.Table(source, positions, length), float32 of its shape.

    Traced positions must be integers, and with Dynamic or LongRope scaling they need the length. The host computes
    their rows (jax.pure_callback), since no formula in float32 is exact. A decode step is faster with a row of a table
    of all positions.
    """
    if isinstance(source, Table):
        return jnp.asarray(np.asarray(source.cos)), jnp.asarray(np.asarray(source.sin))
    if not isinstance(positions, jax.core.Tracer):
        return table(Table(source, positions, length))
    if not jnp.issubdtype(positions.dtype, jnp.integer) or positions.dtype == np.uint64:
        fail("DTYPE", "table", f"positions that are traced must be integers that fit int64 but got {positions.dtype}")
    ndim, shape = positions.ndim, Table(source, np.zeros(positions.shape, np.int64), length).shape
    speeds = frequencies(source, length)

    def rows_at(places: Any) -> list[Any]:
        """The rows of positions in front of whose dimensions vmap has put its own."""
        front = places.shape[: places.ndim - ndim]
        each = np.asarray(places, np.int64).reshape(math.prod(front), *places.shape[len(front) :])
        pairs = [(table.cos, table.sin) for table in (Table(speeds, one) for one in each)]
        return [np.array(part, np.float32).reshape(*front, *shape) for part in zip(*pairs)]

    result = jax.ShapeDtypeStruct(shape, jnp.float32)
    cos, sin = jax.pure_callback(rows_at, (result, result), positions, vmap_method="expand_dims")
    return cos, sin


def _checked(operation: str, tensors: dict[str, Any], cos: Any, sin: Any, *words: Any) -> list[Any]:
    """The rotated tensors, after checks of all arguments."""
    pairing, layout, first, direction, repeated, factors = words
    if isinstance(cos, Table) != (sin is None):
        raise TypeError(f"[{operation}] cos and sin must be given, or in place of both a rotary.Table")
    if isinstance(cos, Table):
        if pairing is not None and check_pairing(operation, pairing) != cos.pairing:
            fail("PAIRING", operation, f"pairing must be that of the table, {cos.pairing}, but got {pairing}")
        pairing, (cos, sin) = cos.pairing, table(cos)
    elif not repeated and _can_be_read(cos) and _can_be_read(sin):
        refuse_doubled(operation, np.asarray(cos), np.asarray(sin))
    pairing, layout = check_pairing(operation, pairing), check_layout(operation, layout)
    check_word(operation, "direction", direction)
    cos, sin, tensors = jnp.asarray(cos), jnp.asarray(sin), {name: jnp.asarray(x) for name, x in tensors.items()}
    for name, x in {**tensors, "cos": cos, "sin": sin}.items():
        if not jnp.issubdtype(x.dtype, jnp.floating) or x.dtype.itemsize < 2:
            fail("DTYPE", operation, f"{name} must be float32, float16, bfloat16 or float64 but got {x.dtype}")
    factors = None if factors is None else jnp.asarray(factors)
    if factors is not None and not jnp.issubdtype(factors.dtype, jnp.floating):
        fail("DTYPE", operation, f"query_scale must be of floats but got {factors.dtype}")
    check_rows(operation, cos.shape, sin.shape)
    shapes = [x.shape for x in tensors.values()]
    if layout[0] == "b":  # perhaps in several dimensions
        count = max(1, 1 + len(shapes[0]) - len(layout))
        tensors = {name: x.reshape(math.prod(x.shape[:count]), *x.shape[count:]) for name, x in tensors.items()}
    for name, x in tensors.items():
        check_heads(operation, name, x.shape, cos.shape, layout, first)
    if factors is not None:
        check_scale(operation, tensors["q"].shape, factors.shape, layout)
    words = pairing, layout, operator.index(first), direction == "backward"
    turned = _turned(list(tensors.values()), cos, sin, factors, *words)
    return [x.reshape(shape) for x, shape in zip(turned, shapes)]


def _can_be_read(values: Any) -> bool:
    """Whether the numbers exist and are in the CPU's memory."""
    if not isinstance(values, jax.Array):
        return True
    is_here = not isinstance(values, jax.core.Tracer) and values.is_fully_addressable
    return is_here and all(device.platform == "cpu" for device in values.devices())


@jax.custom_jvp
def _rounded(product: Any) -> Any:
    """The product, rounded by itself as in rotary's kernels: the select keeps XLA from fusing it with a sum."""
    return jnp.where(jnp.isnan(product), jnp.nan, product)


_rounded.defjvps(lambda moved, *_: moved)


def _placed(rows: Any, layout: str, heads: int) -> Any:
    """The rows in the dimensions of the layout, with size 1 for those that they lack. Heads of a group share a row."""
    letters = "bthd" if rows.ndim == 4 else "btd"[-rows.ndim :]
    rows = jnp.repeat(rows, heads // rows.shape[2], 2) if rows.ndim == 4 else rows
    sizes = dict(zip(letters, rows.shape))
    rows = rows.transpose([letters.index(name) for name in (*(set(letters) - set(layout)), *layout) if name in letters])
    return rows.reshape([sizes.get(name, 1) for name in layout])


@functools.partial(jax.jit, static_argnums=(4, 5, 6, 7))
def _turned(
    given: list[Any], cos: Any, sin: Any, factors: Any, pairing: str, layout: str, first: int, backward: bool
) -> list[Any]:
    """The rotated tensors. factors: one for each token of the first tensor, or None."""
    pairs, sin = cos.shape[-1], -sin if backward else sin
    crossed = pairing == "interleaved_to_half"
    turned: list[Any] = []
    # The axis that holds the two of a pair: the last but one if a head is two halves, the last if they are neighbours.
    reads, writes = (-2 if pairing == "half" or (crossed and backward is back) else -1 for back in (True, False))
    for x in given:
        wide = jnp.promote_types(x.dtype, jnp.float32)
        heads = x.shape[layout.index("h")] if "h" in layout else 1
        c, s = (_placed(one, layout, heads).astype(wide) for one in (cos, sin))
        if factors is not None and not turned:
            factor = _placed(factors[..., None], layout, heads).astype(jnp.float32).astype(wide)
            c, s, rest = _rounded(c * factor), _rounded(s * factor), (x.astype(wide) * factor).astype(x.dtype)
        else:
            rest = x
        block = x[..., first : first + 2 * pairs].astype(wide)
        shape = (2, pairs) if reads == -2 else (pairs, 2)
        a, b = jnp.unstack(block.reshape(*x.shape[:-1], *shape), axis=reads)
        two = _rounded(a * c) - _rounded(b * s), _rounded(b * c) + _rounded(a * s)
        block = jnp.stack(two, writes).reshape(block.shape).astype(x.dtype)
        turned.append(jnp.concatenate([rest[..., :first], block, rest[..., first + 2 * pairs :]], -1))
    return turned
