"""Rotary position embeddings in JAX: inside jit, grad, vmap, scan and shard_map.

    cos, sin = rotary.jax.table(rope, positions)          # exact rows, also of positions that are traced
    q, k = rotary.jax.rotate_qk(q, k, cos, sin, pairing="half", layout="bthd")

| | |
|---|---|
| dtypes of x | float32, float16, bfloat16; float64 by the plain formula |
| CPU | rotary's kernels: float32 product, product, sum, one rounding |
| other platforms | the plain formula in float32 with one rounding; XLA may contract it, the last bit may differ |
| derivatives | of x, cos and sin, forward and reverse, of every order |
| vmap | over x, over cos and sin, or both; without a loop |
| jit over several devices | each device turns its part where shard_map says so; without, XLA gathers x first |

Needs jax 0.5.0 or newer.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, no-any-return"

from __future__ import annotations

from typing import Any

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
import numpy as np  # type: ignore[import-not-found, unused-ignore]

from . import _core
from ._values import Rope, check_pairing, error

if not hasattr(jax, "ffi"):
    raise ImportError(
        f"rotary.jax needs jax 0.5.0 or newer, for jax.ffi, but got {jax.__version__}: upgrade jax"
    )

from ._jax_primitives import formula, rotate_p, rows_p  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from ._values import Layout, Pairing

    Direction = Literal["forward", "backward"]

__all__ = ["rotate", "rotate_qk", "rows", "table"]


def rotate(
    x: jax.Array,
    cos: jax.Array | _core.Table,
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
    (c, s), name = _rows_of("rotate", cos, sin, pairing, repeated)
    return _turned("rotate", {"x": x}, c, s, name, layout, first, direction)[0]


def rotate_qk(
    q: jax.Array,
    k: jax.Array,
    cos: jax.Array | _core.Table,
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
    (c, s), name = _rows_of("rotate_qk", cos, sin, pairing, repeated)
    turned = _turned("rotate_qk", {"q": q, "k": k}, c, s, name, layout, first, direction)
    return turned[0], turned[1]


def rows(table: _core.Table) -> tuple[jax.Array, jax.Array]:
    """(cos, sin) of a rotary.Table as arrays of JAX, float32 of table.shape."""
    return jnp.asarray(np.asarray(table.cos)), jnp.asarray(np.asarray(table.sin))


def table(
    source: Rope | _core.Frequencies, positions: Any, length: int | None = None
) -> tuple[jax.Array, jax.Array]:
    """Exact rows: the correctly rounded float32 of every cos and sin, at any position.

    Inside jit too, where the positions are traced: a decode step makes its row from the position that it is given. On a
    CPU by a kernel; on other platforms the host computes them (jax.pure_callback), since no float32 formula is exact.

    Args:
        source: a rotary.Rope, or rotary.Frequencies.
        positions: as of rotary.Table. Traced: int32 or int64 (or smaller), a scalar, [tokens] or [batch, tokens]; of a
            rope of several axes a scalar, [tokens], [axes, tokens] or [axes, batch, tokens].
        length: tokens in play, for ropes with Dynamic or LongRope scaling; needed where positions are traced.

    Returns:
        (cos, sin): [tokens, pairs], or [batch, tokens, pairs].

    Raises:
        rotary.Error: what rotary.Table raises; DTYPE and SHAPE of traced positions.
    """
    if not isinstance(positions, jax.core.Tracer):
        return rows(_core.Table(source, positions, length))
    if isinstance(source, _core.Frequencies):
        if length is not None:
            raise error(
                "LENGTH", "table", "length must go to rotary.frequencies(rope, length), which made these"
            )
        speeds = source
    else:
        speeds = _core.frequencies(source, length)
    how = {
        "inv_freq": tuple(np.asarray(speeds.inv_freq).view(np.int64).tolist()),
        "axis": tuple(speeds.axis),
        "attention_factor": int(np.float64(speeds.attention_factor).view(np.int64)),
        "clockwise": bool(speeds.clockwise),
    }
    cos, sin = rows_p.bind(_by_axis(positions, speeds.axes), **how)
    return cos, sin


def _by_axis(positions: Any, axes: int) -> Any:
    """Positions that are traced, as [axes or 1, tokens] or [axes or 1, batch, tokens] of int32 or int64."""
    if not jnp.issubdtype(positions.dtype, jnp.integer):
        raise error("DTYPE", "table", f"positions that are traced must be integers but got {positions.dtype}")
    if positions.dtype.itemsize == 8 and jnp.issubdtype(positions.dtype, jnp.unsignedinteger):
        raise error("DTYPE", "table", "positions that are traced must fit int64 but got uint64: convert them")
    if positions.dtype not in (jnp.int32, jnp.int64):
        positions = positions.astype(jnp.int32 if positions.dtype.itemsize < 4 else _widest())
    positions = positions.reshape(1) if positions.ndim == 0 else positions
    if axes == 1 or positions.ndim == 1:
        positions = positions[None]
    if positions.ndim > 3 or positions.shape[0] not in (1, axes):
        rule = (
            "[tokens] or [batch, tokens]"
            if axes == 1
            else "[tokens], [axes, tokens] or [axes, batch, tokens]"
        )
        raise error(
            "SHAPE", "table", f"positions of a rope of {axes} axes must be {rule} but got {positions.shape}"
        )
    return positions


def _widest() -> Any:
    if jax.config.jax_enable_x64:
        return jnp.int64
    raise error(
        "DTYPE", "table", "uint32 positions that are traced need jax_enable_x64: convert them to int32"
    )


# ---- checks, when a call is traced ----


def _rows_of(operation: str, cos: Any, sin: Any, pairing: Any, repeated: bool) -> tuple[tuple[Any, Any], str]:
    if isinstance(cos, _core.Table):
        if sin is not None:
            raise TypeError(f"[{operation}] a rotary.Table stands in place of cos and sin: give no sin")
        if pairing not in (None, cos.pairing):
            rule = f"pairing must be that of the table, {cos.pairing}, or be left out"
            raise error("PAIRING", operation, f"{rule}, but got {pairing}")
        return rows(cos), cos.pairing
    if sin is None:
        raise TypeError(f"[{operation}] sin must be given beside cos, or a rotary.Table in place of both")
    check_pairing(operation, pairing)
    if not repeated:
        _check_single(operation, cos, sin, pairing)
    cos, sin = jnp.asarray(cos), jnp.asarray(sin)
    for name, values in (("cos", cos), ("sin", sin)):
        if not jnp.issubdtype(values.dtype, jnp.floating):
            raise error("DTYPE", operation, f"{name} must be of floats but got {values.dtype}")
    if cos.shape != sin.shape or cos.ndim not in (2, 3):
        rule = "cos and sin must be [tokens, pairs] or [batch, tokens, pairs], both of one shape"
        raise error("SHAPE", operation, f"{rule}, but got {cos.shape} and {sin.shape}")
    return (cos, sin), pairing


def _check_single(operation: str, cos: Any, sin: Any, pairing: Any) -> None:
    """Refuses doubled rows where the numbers are there and on the CPU; what is traced cannot be told."""
    for values in (cos, sin):
        if isinstance(values, jax.core.Tracer):
            return
        if isinstance(values, jax.Array):
            if not values.is_fully_addressable or any(
                device.platform != "cpu" for device in values.devices()
            ):
                return
    try:
        _core.from_rows(np.asarray(cos), np.asarray(sin), pairing)
    except _core.Error as problem:
        if "doubled" not in str(problem):
            return  # told below, in this function's words
        rule = "cos and sin must have one column for each pair but got columns of which each two are equal"
        hint = "frameworks' rows are doubled: take one column of each pair, or pass the Table of rotary.from_doubled"
        raise error(
            "SHAPE", operation, f"{rule}: {hint} (or repeated=True where the pairs do turn alike)"
        ) from None


def _placed(values: Any, layout: str) -> Any:
    """Rows as the dimensions of the layout, 1 where they do not depend on one."""
    names = "btd" if values.ndim == 3 else "td"
    if "b" in names and "b" not in layout:  # its batch is 1
        values, names = values[0], "td"
    kept = [letter for letter in layout[:-1] if letter in names] + ["d"]
    if "t" not in layout:
        values = values.reshape(*(values.shape[names.index(letter)] for letter in kept))
        names = "".join(kept)
    values = values.transpose([names.index(letter) for letter in kept])
    sizes = dict(zip(kept, values.shape))
    return values.reshape(*(sizes.get(letter, 1) for letter in layout))


def _check_tensor(operation: str, name: str, x: Any, cos: Any, layout: str, first: int) -> None:
    if not jnp.issubdtype(x.dtype, jnp.floating) or x.dtype.itemsize < 2:
        raise error(
            "DTYPE",
            operation,
            f"{name} must be float32, float16, bfloat16 or float64 but got {x.dtype}: convert it first",
        )
    if x.ndim != len(layout):
        rule = f'{name} must have the {len(layout)} dimensions of layout "{layout}"'
        raise error("SHAPE", operation, f"{rule} but got {x.shape}")
    sizes = dict(zip(layout, x.shape))
    tokens, batch, head_dim = sizes.get("t", 1), sizes.get("b", 1), sizes["d"]
    if cos.shape[-2] != tokens:
        rule = f"cos and sin must have a row for each of the {tokens} tokens of {name}"
        raise error("SHAPE", operation, f"{rule} but got {cos.shape[-2]} rows")
    if cos.ndim == 3 and cos.shape[0] not in (1, batch):
        rule = f"cos and sin must have 1 batch row, or one for each of the {batch} of {name}"
        raise error("SHAPE", operation, f"{rule}, but got {cos.shape[0]}")
    if first + 2 * cos.shape[-1] > head_dim:
        rule = f"the {2 * cos.shape[-1]} elements that turn must lie inside head_dim {head_dim} of {name}"
        hint = "frameworks' rows are doubled: pass one column of each pair"
        raise error("SHAPE", operation, f"{rule} but begin at {first}, two for each column of cos ({hint})")


def _check_words(operation: str, layout: Any, first: Any, direction: Any) -> None:
    if not isinstance(layout, str) or not 2 <= len(layout) <= 4 or layout[-1] != "d":
        sound = False
    else:
        sound = len(set(layout)) == len(layout) and set(layout) <= set("bthd")
    if not sound:
        rule = (
            "layout must name the dimensions, b batch, t tokens, h heads in their order and d head_dim last"
        )
        raise error("SHAPE", operation, f'{rule}, as "bthd", "bhtd", "tbhd" or "thd", but got {layout!r}')
    if isinstance(first, bool) or not isinstance(first, (int, np.integer)) or first < 0:
        raise error("SHAPE", operation, f"first must be an element of the head but got {first!r}")
    if direction not in ("forward", "backward"):
        raise error("VALUE", operation, f'direction must be "forward" or "backward" but got {direction!r}')


def _varying_alike(values: list[Any]) -> list[Any]:
    """Inside shard_map: what varies over fewer axes of the mesh than the others is said to vary over all of theirs."""
    over = [
        frozenset(getattr(jax.typeof(x), "vma", ())) if hasattr(jax, "typeof") else frozenset()
        for x in values
    ]
    every = frozenset().union(*over)
    made = []
    for x, axes in zip(values, over):
        missing = tuple(sorted(every - axes))
        if missing and hasattr(jax.lax, "pcast"):
            x = jax.lax.pcast(x, missing, to="varying")
        elif missing:
            x = jax.lax.pvary(x, missing)
        made.append(x)
    return made


def _turned(
    operation: str,
    tensors: dict[str, Any],
    cos: Any,
    sin: Any,
    pairing: str,
    layout: str,
    first: int,
    direction: str,
) -> list[Any]:
    _check_words(operation, layout, first, direction)
    given = [jnp.asarray(x) for x in tensors.values()]
    for name, x in zip(tensors, given):
        _check_tensor(operation, name, x, cos, layout, first)
    cos, sin = _placed(cos, layout), _placed(sin, layout)
    how: dict[str, Any] = {"pairing": pairing, "first": int(first), "backward": direction == "backward"}
    *given, cos, sin = _varying_alike([*given, cos, sin])
    short = [i for i, x in enumerate(given) if x.dtype.itemsize < 8]
    if short:
        single = cos.astype(jnp.float32), sin.astype(jnp.float32)
        for i, x in zip(short, rotate_p.bind(*(given[i] for i in short), *single, **how)):
            given[i] = x
    return [x if i in short else formula(x, cos, sin, **how) for i, x in enumerate(given)]
