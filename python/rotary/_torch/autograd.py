# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The gradient: the rotation with the transposed map, which is the same Function, so it can be taken again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from . import ops, plain
from .plain import How, parts

_levels = torch._C._functorch.peek_interpreter_stack


def turn(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    """The op of one tensor or of q and k, recorded."""
    function: Any = Turn if _levels() is not None else TurnAtThisLevel
    return function.apply(*tensors, cos, sin, *how)


def at_this_level(*inputs: Any) -> Any:
    """For the dispatch key Autograd, below which torch.func has taken its levels apart."""
    if _levels() is None:
        return TurnAtThisLevel.apply(*inputs)
    with enable_single_level_autograd_function():
        return TurnAtThisLevel.apply(*inputs)


def _tangent(x: Tensor, dx: Tensor | None, cos: Tensor, sin: Tensor, d_cos: Any, d_sin: Any, how: How) -> Tensor:
    """The map is linear in x, and in (cos, sin)."""
    turned = torch.zeros_like(x) if dx is None else turn((dx,), cos, sin, how)[0]
    if d_cos is None and d_sin is None:
        return turned
    d_cos = torch.zeros_like(cos) if d_cos is None else d_cos
    d_sin = torch.zeros_like(sin) if d_sin is None else d_sin
    return turned + plain.rotated(x, d_cos, d_sin, how, keeps=False)


def _save(ctx: Any, tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> None:
    ctx.how = how
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(cos, sin, *(tensors if cos.requires_grad or sin.requires_grad else ()))
    if torch.autograd.forward_ad._current_level >= 0:
        ctx.save_for_forward(cos, sin, *tensors)


class Turn(torch.autograd.Function):
    """rotary::rotate or rotate_qk of (*tensors, cos, sin, *how), differentiable in all tensors."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return ops.below(*parts(inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save(ctx, *parts(inputs))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (cos, sin, *read), how = ctx.saved_tensors, ctx.how
        wanted = [grad if needed else None for grad, needed in zip(grads, ctx.needs_input_grad)]
        there = [grad for grad in wanted if grad is not None]
        turned = iter(turn(there, cos, sin, how._replace(backward=not how.backward)) if there else ())
        d_cos = d_sin = None
        rows = [plain.gradients_of_rows(x, grad, cos, sin, how) for x, grad in zip(read, grads) if grad is not None]
        if rows:
            d_cos, d_sin = (sum(one[1:], one[0]) for one in zip(*rows))
        return *(None if grad is None else next(turned) for grad in wanted), d_cos, d_sin, *(None for _ in how)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> tuple[Tensor, ...]:
        cos, sin, *tensors = ctx.saved_tensors
        d_cos, d_sin = tangents[len(tensors) : len(tensors) + 2]
        return tuple(_tangent(x, dx, cos, sin, d_cos, d_sin, ctx.how) for x, dx in zip(tensors, tangents))

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
        return mapped(turn, info, in_dims, inputs)


class TurnAtThisLevel(_SingleLevelFunction):
    """Turn for autograd alone: without torch.func's rules and setup_context, apply() takes 10 us less."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        given = parts(inputs)
        _save(ctx, *given)
        return ops.below(*given)

    backward = Turn.backward
    jvp = Turn.jvp


def mapped(turns: Any, info: Any, in_dims: tuple[Any, ...], inputs: tuple[Any, ...]) -> Any:
    """The rule of vmap for what turns: (results, where vmap's dimension is in each). It becomes a part of the batch."""
    tensors, cos, sin, how = parts(inputs)
    count, size, at = len(tensors), info.batch_size, how.layout.find("b")
    dims_of_rows = in_dims[count : count + 2]
    is_mapped = any(dim is not None for dim in dims_of_rows)

    def in_front(x: Tensor, dim: int | None) -> Tensor:
        return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)

    def of_rows(rows: Tensor, dim: int | None) -> Tensor:
        if not is_mapped and (rows.dim() == 2 or rows.shape[0] == 1):
            return rows
        rows = in_front(rows, dim)
        rows = rows.unsqueeze(1) if rows.dim() == 3 else rows
        return rows.expand(size, batch, *rows.shape[2:]).flatten(0, 1)

    given = [in_front(x, dim) for x, dim in zip(tensors, in_dims)]
    batch = given[0].shape[at + 1] if at >= 0 else 1
    if at >= 0:
        given = [x.movedim(at + 1, 1).flatten(0, 1) for x in given]
    folded = how._replace(layout="b" + how.layout.replace("b", ""))
    turned = turns(given, *map(of_rows, (cos, sin), dims_of_rows), folded)
    if at >= 0:
        turned = [y.unflatten(0, (size, batch)).movedim(1, at + 1) for y in turned]
    return tuple(turned), (0,) * count
