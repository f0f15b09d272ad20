"""Rotary position embeddings in JAX: inside jit, grad, vmap, scan and shard_map.

    cos, sin = rotary.jax.table(rope, positions)          # exact rows, also of positions that are traced
    q, k = rotary.jax.rotate_qk(q, k, cos, sin, pairing="half", layout="bthd")

The rotation is the formula in JAX's own operations, in float32 with one rounding (float64: in float64), so that XLA
fuses, shards and differentiates it as everything else. Needs jax 0.5.0 or newer.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, no-any-return, untyped-decorator, unused-ignore"

from __future__ import annotations

import functools
from typing import Any

import jax  # type: ignore[import-not-found]
import jax.numpy as jnp  # type: ignore[import-not-found]
import numpy as np  # type: ignore[import-not-found]
from jax.custom_derivatives import SymbolicZero  # type: ignore[import-not-found]

from ._rotating import refuse_doubled
from ._tables import Frequencies, Table, frequencies
from ._values import Rope
from ._words import Direction, Layout, Pairing, check_direction, check_layout, check_pairing, error

__all__ = ["rotate", "rotate_qk", "rows", "table"]


def rotate(
    x: jax.Array,
    cos: jax.Array | Table,
    sin: jax.Array | None = None,
    *,
    pairing: Pairing | None = None,
    layout: Layout,
    first: int = 0,
    direction: Direction = "forward",
    repeated: bool = False,
) -> jax.Array:
    """Turn the heads of x by rows of cos and sin.

    Args:
        x: float32, float16, bfloat16 or float64, of the dimensions of layout.
        cos: one column for each pair, [tokens, pairs] or [batch, tokens, pairs]; computed with in float32. Or a
            rotary.Table, in place of cos and sin.
        sin: likewise.
        pairing: "half", "interleaved" or "interleaved_to_half". No default; a Table has its own.
        layout: the dimensions of x: b batch, t tokens, h heads in any order and each at most once, then d head_dim,
            as "bthd" or "bhtd". No default.
        first: the element of a head where the 2 * pairs that turn begin. The others are kept.
        direction: "forward", or "backward": the transposed map, which is the gradient of x.
        repeated: takes rows whose columns are equal two by two, which are refused as doubled otherwise (where their
            numbers are there: those that are traced cannot be told).

    Returns:
        An array of the shape and dtype of x. Of float32, float16 and bfloat16 on a CPU the bits of rotary.rotate.

    Raises:
        rotary.Error: SHAPE, DTYPE, PAIRING, VALUE. When the call is traced, before anything is computed.
    """
    return _checked("rotate", {"x": x}, cos, sin, pairing, layout, first, direction, repeated)[0]


def rotate_qk(
    q: jax.Array,
    k: jax.Array,
    cos: jax.Array | Table,
    sin: jax.Array | None = None,
    *,
    pairing: Pairing | None = None,
    layout: Layout,
    first: int = 0,
    direction: Direction = "forward",
    repeated: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Turn q and k in one call. They may differ in heads, head_dim and dtype.

    Args:
        q, k: as x of rotate().
        cos, sin, pairing, layout, first, direction, repeated: as of rotate().

    Raises:
        rotary.Error: SHAPE, DTYPE, PAIRING, VALUE.
    """
    turned = _checked("rotate_qk", {"q": q, "k": k}, cos, sin, pairing, layout, first, direction, repeated)
    return turned[0], turned[1]


def rows(table: Table) -> tuple[jax.Array, jax.Array]:
    """(cos, sin) of a rotary.Table as arrays of JAX, float32 of table.shape."""
    return jnp.asarray(np.asarray(table.cos)), jnp.asarray(np.asarray(table.sin))


def table(
    source: Rope | Frequencies, positions: Any, length: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """Exact rows: the correctly rounded float32 of every cos and sin, at any position.

    Inside jit too, where the positions are traced: the host then computes the rows (jax.pure_callback), since no
    formula in float32 is exact. A decode step does better with a row of a table that was made before.

    Args:
        source: a rotary.Rope, or rotary.Frequencies.
        positions: as of rotary.Table. Traced: integers, a scalar, [tokens] or [batch, tokens]; of a rope of several
            axes a scalar, [tokens], [axes, tokens] or [axes, batch, tokens].
        length: tokens in play, for ropes with Dynamic or LongRope scaling; needed where positions are traced.

    Returns:
        (cos, sin): [tokens, pairs], or [batch, tokens, pairs].

    Raises:
        rotary.Error: what rotary.Table raises; DTYPE and SHAPE of traced positions.
    """
    if not isinstance(positions, jax.core.Tracer):
        return rows(Table(source, positions, length))
    speeds = source if isinstance(source, Frequencies) else frequencies(source, length)
    if speeds is source:
        Table(source, 0, length)  # refuses a length
    if not jnp.issubdtype(positions.dtype, jnp.integer) or positions.dtype == np.uint64:
        rule = f"positions that are traced must be integers that fit int64 but got {positions.dtype}"
        raise error("DTYPE", "table", rule)
    axes, given = speeds.axes, jnp.atleast_1d(positions)
    if axes == 1 or given.ndim == 1:
        given = given[None]
    if given.ndim > 3 or given.shape[0] not in (1, axes):
        shapes = "[tokens] or [batch, tokens]" if axes == 1 else "[tokens], [axes, tokens] or [axes, batch, tokens]"
        rule = f"positions of a rope of {axes} axes must be {shapes} but got {positions.shape}"
        raise error("SHAPE", "table", rule)

    def made(places: Any) -> tuple[Any, Any]:
        """Rows of places [..., axes]: vmap puts its dimensions in front."""
        places = np.asarray(places)
        exact = Table(speeds, places.reshape(-1, axes).T.astype(np.int64))
        shape = (*places.shape[:-1], exact.pairs)
        return np.array(exact.cos).reshape(shape), np.array(exact.sin).reshape(shape)

    places = jnp.moveaxis(jnp.broadcast_to(given, (axes, *given.shape[1:])), 0, -1)
    result = jax.ShapeDtypeStruct((*places.shape[:-1], len(speeds.inv_freq)), jnp.float32)
    cos, sin = jax.pure_callback(made, (result, result), places, vmap_method="expand_dims")
    return cos, sin


# ---- checks, when a call is traced ----


def _checked(
    operation: str,
    tensors: dict[str, Any],
    cos: Any,
    sin: Any,
    pairing: Any,
    layout: Any,
    first: Any,
    direction: Any,
    repeated: bool,
) -> list[Any]:
    """The tensors turned, once everything is known to fit."""
    if isinstance(cos, Table):
        if sin is not None:
            raise TypeError(f"[{operation}] a rotary.Table stands in place of cos and sin: give no sin")
        if pairing not in (None, cos.pairing):
            rule = f"pairing must be that of the table, {cos.pairing}, or be left out"
            raise error("PAIRING", operation, f"{rule}, but got {pairing}")
        pairing = cos.pairing
        cos, sin = rows(cos)
    elif sin is None:
        raise TypeError(f"[{operation}] sin must be given beside cos, or a rotary.Table in place of both")
    else:
        check_pairing(operation, pairing)
        if not repeated and _can_be_read(cos) and _can_be_read(sin):
            refuse_doubled(operation, np.asarray(cos), np.asarray(sin))
        cos, sin = _rows(operation, cos, sin)
    check_layout(operation, layout)
    check_direction(operation, direction)
    if isinstance(first, bool) or not isinstance(first, (int, np.integer)) or first < 0:
        raise error("SHAPE", operation, f"first must be an element of the head but got {first!r}")
    given = {name: jnp.asarray(x) for name, x in tensors.items()}
    for name, x in given.items():
        _check_tensor(operation, name, x, cos.shape, layout, int(first))
    how = {"pairing": pairing, "layout": layout, "first": int(first), "backward": direction == "backward"}
    return _turned(list(given.values()), cos, sin, **how)


def _can_be_read(values: Any) -> bool:
    """Whether the numbers are there, and on the CPU."""
    if isinstance(values, jax.core.Tracer):
        return False
    if isinstance(values, jax.Array):
        return values.is_fully_addressable and all(device.platform == "cpu" for device in values.devices())
    return True


def _rows(operation: str, cos: Any, sin: Any) -> tuple[Any, Any]:
    cos, sin = jnp.asarray(cos), jnp.asarray(sin)
    for name, values in (("cos", cos), ("sin", sin)):
        if not jnp.issubdtype(values.dtype, jnp.floating):
            raise error("DTYPE", operation, f"{name} must be of floats but got {values.dtype}")
    if cos.shape != sin.shape or cos.ndim not in (2, 3):
        rule = "cos and sin must be [tokens, pairs] or [batch, tokens, pairs], both of one shape"
        raise error("SHAPE", operation, f"{rule}, but got {cos.shape} and {sin.shape}")
    return cos, sin


def _check_tensor(operation: str, name: str, x: Any, rows: Any, layout: str, first: int) -> None:
    """x with rows of a shape [tokens, pairs] or [batch, tokens, pairs]."""
    if not jnp.issubdtype(x.dtype, jnp.floating) or x.dtype.itemsize < 2:
        rule = f"{name} must be float32, float16, bfloat16 or float64 but got {x.dtype}: convert it first"
        raise error("DTYPE", operation, rule)
    if x.ndim != len(layout):
        rule = f'{name} must have the {len(layout)} dimensions of layout "{layout}"'
        raise error("SHAPE", operation, f"{rule} but got {x.shape}")
    sizes = dict(zip(layout, x.shape))
    tokens, batch, head_dim = sizes.get("t", 1), sizes.get("b", 1), sizes["d"]
    if rows[-2] != tokens:
        rule = f"cos and sin must have a row for each of the {tokens} tokens of {name} but got {rows[-2]} rows"
        raise error("SHAPE", operation, rule)
    if len(rows) == 3 and rows[0] not in (1, batch):
        rule = f"cos and sin must have 1 batch row, or one for each of the {batch} of {name}, but got {rows[0]}"
        raise error("SHAPE", operation, rule)
    if first + 2 * rows[-1] > head_dim:
        rule = f"the {2 * rows[-1]} elements that turn must lie inside head_dim {head_dim} of {name}"
        hint = "two for each column of cos (frameworks' rows are doubled: pass one column of each pair)"
        raise error("SHAPE", operation, f"{rule} but begin at {first}, {hint}")


# ---- the formula ----


@jax.custom_jvp
def _product(a: Any, b: Any) -> Any:
    """a * b, rounded by itself, as rotary's kernels do: the choice keeps XLA from fusing it with a sum."""
    product = a * b
    return jnp.where(jnp.isnan(product), jnp.nan, product)


@functools.partial(_product.defjvp, symbolic_zeros=True)
def _product_jvp(primals: Any, tangents: Any) -> Any:
    (a, b), (moved_a, moved_b) = primals, tangents
    parts = [] if type(moved_a) is SymbolicZero else [moved_a * b]
    parts += [] if type(moved_b) is SymbolicZero else [a * moved_b]
    result = _product(a, b)
    return result, functools.reduce(jnp.add, parts) if parts else jnp.zeros_like(result)


def _placed(rows: Any, layout: str) -> Any:
    """Rows as the dimensions of the layout, 1 where they do not depend on one."""
    names = list("btd"[-rows.ndim :])
    rows = rows.squeeze([at for at, name in enumerate(names) if name not in layout])
    names = [name for name in names if name in layout]
    rows = rows.transpose([names.index(name) for name in layout if name in names])
    return jnp.expand_dims(rows, [at for at, name in enumerate(layout) if name not in names])


@functools.partial(jax.jit, static_argnames=("pairing", "layout", "first", "backward"))
def _turned(given: list[Any], cos: Any, sin: Any, pairing: str, layout: str, first: int, backward: bool) -> list[Any]:
    cos, sin = _placed(cos, layout), _placed(-sin if backward else sin, layout)
    return [_formula(x, cos, sin, pairing, first, backward) for x in given]


def _formula(x: Any, cos: Any, sin: Any, pairing: str, first: int, backward: bool) -> Any:
    wide, pairs = jnp.promote_types(x.dtype, jnp.float32), cos.shape[-1]
    cos, sin = cos.astype(wide), sin.astype(wide)
    before, block, after = jnp.split(x, [first, first + 2 * pairs], -1)
    reads_halves = pairing == "half" or (pairing == "interleaved_to_half" and backward)
    writes_halves = pairing == "half" or (pairing == "interleaved_to_half" and not backward)
    shape = (2, pairs) if reads_halves else (pairs, 2)
    two = block.astype(wide).reshape(*x.shape[:-1], *shape)
    a, b = (two[..., 0, :], two[..., 1, :]) if reads_halves else (two[..., 0], two[..., 1])
    turned = _product(a, cos) - _product(b, sin), _product(b, cos) + _product(a, sin)
    block = jnp.stack(turned, -2 if writes_halves else -1).reshape(block.shape).astype(x.dtype)
    return jnp.concatenate([before, block, after], -1)
