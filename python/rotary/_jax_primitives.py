"""The rotation and its rows as JAX primitives: derivatives, batching, and what each platform runs.

A primitive rather than jax.ffi.ffi_call in a custom_vjp: the rotation is linear in x and linear in cos and sin, and as
a primitive that says so it has forward- and reverse-mode derivatives of every order, and vmap without a loop.
"""

# JAX's own types differ from version to version, and much of what is used here has none.
# mypy: disable-error-code="no-untyped-call, attr-defined, no-any-return"

from __future__ import annotations

import functools
from typing import Any

import jax  # type: ignore[import-not-found, unused-ignore]
import jax.numpy as jnp  # type: ignore[import-not-found, unused-ignore]
import numpy as np  # type: ignore[import-not-found, unused-ignore]
from jax.extend.core import Primitive  # type: ignore[import-not-found, unused-ignore]
from jax.interpreters import ad, batching, mlir  # type: ignore[import-not-found, unused-ignore]

from . import _core

for _name, _handler in _core._xla_targets().items():
    jax.ffi.register_ffi_target(_name, _handler, platform="cpu")

# (x, ..., cos, sin) -> (turned x, ...). x is [..., head_dim], cos and sin are f32 [..., pairs], all of one rank. Each
# dimension but the last is that of the result, or 1, as broadcasting has it.
rotate_p = Primitive("rotary_rotate")
rotate_p.multiple_results = True

# positions [axes, ...] of int32 or int64 -> cos, sin, f32 [..., pairs].
rows_p = Primitive("rotary_rows")
rows_p.multiple_results = True


# ---- the plain formula ----


def _halves(block: Any, pairs: int) -> tuple[Any, Any]:
    return block[..., :pairs], block[..., pairs:]


def _neighbours(block: Any, pairs: int) -> tuple[Any, Any]:
    two = block.reshape(*block.shape[:-1], pairs, 2)
    return two[..., 0], two[..., 1]


def formula(x: Any, cos: Any, sin: Any, pairing: str, first: int, backward: bool, others: bool = True) -> Any:
    """x turned in float32 (float64: in float64) and rounded once. others: keep the other elements, else zeros."""
    pairs = cos.shape[-1]
    wide = jnp.promote_types(x.dtype, jnp.float32)
    cos, sin = cos.astype(wide), sin.astype(wide)
    block = x[..., first : first + 2 * pairs].astype(wide)
    crossed = pairing == "interleaved_to_half"
    reads_halves = pairing == "half" or (crossed and backward)
    writes_halves = pairing == "half" or (crossed and not backward)
    a, b = _halves(block, pairs) if reads_halves else _neighbours(block, pairs)
    if backward:
        sin = -sin
    one, two = a * cos - b * sin, b * cos + a * sin
    turned = jnp.concatenate([one, two], -1) if writes_halves else jnp.stack([one, two], -1)
    lead = one.shape[:-1]
    turned = turned.reshape(*lead, 2 * pairs).astype(x.dtype)
    if 2 * pairs == x.shape[-1]:
        return turned
    rest = jnp.broadcast_to(x, (*lead, x.shape[-1])) if others else jnp.zeros((*lead, x.shape[-1]), x.dtype)
    return jnp.concatenate([rest[..., :first], turned, rest[..., first + 2 * pairs :]], -1)


def _formulas(*operands: Any, pairing: str, first: int, backward: bool) -> list[Any]:
    *tensors, cos, sin = operands
    return [formula(x, cos, sin, pairing, first, backward) for x in tensors]


# ---- rotate ----


_HOW = ("pairing", "first", "backward")


@functools.partial(jax.jit, static_argnames=_HOW)
def _rotate_compiled(*operands: Any, pairing: str, first: int, backward: bool) -> Any:
    return rotate_p.bind(*operands, pairing=pairing, first=first, backward=backward)


def _rotate_now(*operands: Any, **how: Any) -> Any:
    with jax.disable_jit(False):  # else the call would come back here
        return _rotate_compiled(*operands, **how)


def _rotate_shapes(*operands: Any, **_: Any) -> list[Any]:
    *tensors, cos, _sin = operands
    made = []
    for x in tensors:
        shape = (*jax.lax.broadcast_shapes(x.shape[:-1], cos.shape[:-1]), x.shape[-1])
        made.append(x.update(weak_type=False) if shape == x.shape else x.update(shape=shape, weak_type=False))
    return made


def _zero(result: Any) -> Any:
    return ad.Zero(result.aval.to_tangent_aval())


def _rotate_jvp(primals: Any, tangents: Any, **how: Any) -> Any:
    *tensors, cos, sin = primals
    *moved, moved_cos, moved_sin = tangents
    results = rotate_p.bind(*primals, **how)
    made = [_zero(result) for result in results]
    which = [i for i, tangent in enumerate(moved) if type(tangent) is not ad.Zero]
    if which:
        for i, tangent in zip(which, rotate_p.bind(*(moved[i] for i in which), cos, sin, **how)):
            made[i] = tangent
    if type(moved_cos) is not ad.Zero or type(moved_sin) is not ad.Zero:
        moved_cos, moved_sin = ad.instantiate_zeros(moved_cos), ad.instantiate_zeros(moved_sin)
        for i, x in enumerate(tensors):
            made[i] = ad.add_tangents(made[i], formula(x, moved_cos, moved_sin, **how, others=False))
    return results, made


def _summed(value: Any, shape: Any) -> Any:
    """The sum over the dimensions that were broadcast from 1."""
    axes = [i for i, (have, want) in enumerate(zip(value.shape, shape)) if want == 1 and have != 1]
    return jnp.sum(value, axes, keepdims=True, dtype=value.dtype) if axes else value


def _rotate_transpose(cotangents: Any, *operands: Any, pairing: str, first: int, backward: bool) -> Any:
    """Of the linear map of the tensors: the rotation back."""
    *tensors, cos, sin = operands
    made: list[Any] = [None] * len(operands)  # None: zero
    which = []
    for i, (x, cotangent) in enumerate(zip(tensors, cotangents)):
        if ad.is_undefined_primal(x) and type(cotangent) is not ad.Zero:
            which.append(i)
    if which:
        given = (cotangents[i] for i in which)
        turned = rotate_p.bind(*given, cos, sin, pairing=pairing, first=first, backward=not backward)
        for i, x in zip(which, turned):
            made[i] = _summed(x, tensors[i].aval.shape)
    return made


def _in_front(x: Any, dim: int | None) -> Any:
    return jnp.expand_dims(x, 0) if dim is None else jnp.moveaxis(x, dim, 0)


def _rotate_batch(operands: Any, dims: Any, **how: Any) -> Any:
    """A new first dimension; what has none of its own gets one of size 1."""
    *tensors, cos, sin = operands
    *places, cos_place, sin_place = dims
    if cos_place is None and sin_place is None and None in places:  # those tensors stay as they are
        made: list[Any] = [None] * len(tensors)
        for mapped in (True, False):
            which = [i for i, place in enumerate(places) if (place is not None) == mapped]
            if which and mapped:
                some = [tensors[i] for i in which], [places[i] for i in which]
                results, _ = _rotate_batch([*some[0], cos, sin], [*some[1], None, None], **how)
            elif which:
                results = rotate_p.bind(*(tensors[i] for i in which), cos, sin, **how)
            for i, result in zip(which, results if which else ()):
                made[i] = result
        return made, [None if place is None else 0 for place in places]
    cos, sin = _in_front(cos, cos_place), _in_front(sin, sin_place)
    if cos.shape != sin.shape:  # one of them is not mapped
        cos, sin = jnp.broadcast_arrays(cos, sin)
    results = rotate_p.bind(*(_in_front(x, place) for x, place in zip(tensors, places)), cos, sin, **how)
    return results, [0] * len(results)


def _rotate_on_cpu(context: Any, *operands: Any, **how: Any) -> Any:
    """A result takes the memory of its x where nothing else reads that; else XLA copies x first."""
    shapes = zip(context.avals_in, context.avals_out)
    aliases = {i: i for i, (x, result) in enumerate(shapes) if x.shape == result.shape}
    return jax.ffi.ffi_lowering("rotary_rotate", operand_output_aliases=aliases)(context, *operands, **how)


rotate_p.def_impl(_rotate_now)
rotate_p.def_abstract_eval(_rotate_shapes)
ad.primitive_jvps[rotate_p] = _rotate_jvp
ad.primitive_transposes[rotate_p] = _rotate_transpose
batching.primitive_batchers[rotate_p] = _rotate_batch
mlir.register_lowering(rotate_p, _rotate_on_cpu, platform="cpu")
mlir.register_lowering(rotate_p, mlir.lower_fun(_formulas, multiple_results=True))


# ---- rows ----

_ROWS = ("inv_freq", "axis", "attention_factor", "clockwise")


@functools.partial(jax.jit, static_argnames=_ROWS)
def _rows_compiled(positions: Any, **how: Any) -> Any:
    return rows_p.bind(positions, **how)


def _rows_now(positions: Any, **how: Any) -> Any:
    with jax.disable_jit(False):
        return _rows_compiled(positions, **how)


def _rows_shapes(positions: Any, *, inv_freq: tuple[int, ...], **_: Any) -> list[Any]:
    made = jax.core.ShapedArray((*positions.shape[1:], len(inv_freq)), jnp.float32)
    return [made, made]


def _rows_jvp(primals: Any, _: Any, **how: Any) -> Any:
    results = rows_p.bind(*primals, **how)
    return results, [_zero(result) for result in results]


def _rows_batch(operands: Any, dims: Any, **how: Any) -> Any:
    return rows_p.bind(jnp.moveaxis(operands[0], dims[0], 1), **how), [0, 0]


def _numbers(inv_freq: tuple[int, ...], axis: tuple[int, ...]) -> dict[str, Any]:
    return {"inv_freq": np.array(inv_freq, np.int64), "axis": np.array(axis, np.int64)}


def _rows_on_cpu(context: Any, positions: Any, *, inv_freq: Any, axis: Any, **how: Any) -> Any:
    return jax.ffi.ffi_lowering("rotary_rows")(context, positions, **_numbers(inv_freq, axis), **how)


def _rows_elsewhere(
    positions: Any, *, inv_freq: Any, axis: Any, attention_factor: int, clockwise: bool
) -> Any:
    """Computed by the host, since no other arithmetic is exact."""
    speeds, factor = (np.array(bits, np.int64).view(np.float64) for bits in (inv_freq, [attention_factor]))
    source = _core.Frequencies(
        speeds, pairing="half", attention_factor=float(factor[0]), axis=axis or None, clockwise=clockwise
    )

    def rows(values: Any) -> tuple[Any, Any]:
        values = np.asarray(values)
        table = _core.Table(source, values.reshape(len(values), -1))
        shape = (*values.shape[1:], len(inv_freq))
        return np.array(table.cos).reshape(shape), np.array(table.sin).reshape(shape)

    made = jax.ShapeDtypeStruct((*positions.shape[1:], len(inv_freq)), jnp.float32)
    return jax.pure_callback(rows, (made, made), positions, vmap_method="sequential")


rows_p.def_impl(_rows_now)
rows_p.def_abstract_eval(_rows_shapes)
ad.primitive_jvps[rows_p] = _rows_jvp
batching.primitive_batchers[rows_p] = _rows_batch
mlir.register_lowering(rows_p, _rows_on_cpu, platform="cpu")
mlir.register_lowering(rows_p, mlir.lower_fun(_rows_elsewhere, multiple_results=True))
