# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The gradient: the rotation with the transposed map, which is the same Function, so it can be taken again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from . import ops, plain
from .plain import How

_levels = torch._C._functorch.peek_interpreter_stack


def _save(ctx: Any, tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, words: tuple[Any, ...]) -> None:
    ctx.how = How(*words)
    read = cos.requires_grad or sin.requires_grad
    ctx.save_for_backward(cos, sin, *(tensors if read else ()))
    if torch.autograd.forward_ad._current_level >= 0:
        ctx.save_for_forward(cos, sin, *tensors)


def _tangent(x: Tensor, dx: Tensor | None, cos: Tensor, sin: Tensor, d_cos: Any, d_sin: Any, how: How) -> Tensor:
    """The map is linear in x, and in (cos, sin)."""
    turned = torch.zeros_like(x) if dx is None else rotate(dx, cos, sin, *how)
    if d_cos is None and d_sin is None:
        return turned
    d_cos = torch.zeros_like(cos) if d_cos is None else d_cos
    d_sin = torch.zeros_like(sin) if d_sin is None else d_sin
    return turned + plain.rotated(x, d_cos, d_sin, how, keeps=False)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Tensor:
    """The op, recorded."""
    function: Any = Rotate if _levels() is not None else RotateAtThisLevel
    return function.apply(x, cos, sin, *words)


def rotate_qk(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> tuple[Tensor, Tensor]:
    function: Any = RotateQK if _levels() is not None else RotateQKAtThisLevel
    return function.apply(q, k, cos, sin, *words)


def at_this_level(function: Any, *inputs: Any) -> Any:
    """For the dispatch key Autograd, below which torch.func has taken its levels apart."""
    if _levels() is None:
        return function.apply(*inputs)
    with enable_single_level_autograd_function():
        return function.apply(*inputs)


class Rotate(torch.autograd.Function):
    """rotary::rotate, differentiable in x, cos and sin."""

    @staticmethod
    def forward(x: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Tensor:
        return ops.rotate_below(x, cos, sin, *words)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        x, cos, sin, *words = inputs
        _save(ctx, (x,), cos, sin, tuple(words))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (cos, sin, *read), how = ctx.saved_tensors, ctx.how
        d_x = d_cos = d_sin = None
        if ctx.needs_input_grad[0]:
            d_x = rotate(grad, cos, sin, *how._replace(backward=not how.backward))
        if read:
            d_cos, d_sin = plain.gradients_of_rows(read[0], grad, cos, sin, how)
        return d_x, d_cos, d_sin, *(None for _ in how)

    @staticmethod
    def jvp(ctx: Any, d_x: Any, d_cos: Any, d_sin: Any, *_: Any) -> Tensor:
        cos, sin, x = ctx.saved_tensors
        return _tangent(x, d_x, cos, sin, d_cos, d_sin, ctx.how)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
        return map_one(rotate, info, in_dims, *inputs)


class RotateQK(torch.autograd.Function):
    """rotary::rotate_qk, differentiable in q, k, cos and sin."""

    @staticmethod
    def forward(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> tuple[Tensor, Tensor]:
        return ops.rotate_qk_below(q, k, cos, sin, *words)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        q, k, cos, sin, *words = inputs
        ctx.set_materialize_grads(False)
        _save(ctx, (q, k), cos, sin, tuple(words))

    @staticmethod
    def backward(ctx: Any, grad_q: Tensor | None, grad_k: Tensor | None) -> tuple[Tensor | None, ...]:
        (cos, sin, *read), how = ctx.saved_tensors, ctx.how
        back = how._replace(backward=not how.backward)
        grads = (grad_q, grad_k)
        wanted: list[Any] = [grad if needed else None for grad, needed in zip(grads, ctx.needs_input_grad)]
        if wanted[0] is not None and wanted[1] is not None:
            wanted = list(rotate_qk(*wanted, cos, sin, *back[:4]))
        else:
            wanted = [None if grad is None else rotate(grad, cos, sin, *back) for grad in wanted]
        d_cos = d_sin = None
        if read:
            parts = [
                plain.gradients_of_rows(x, grad, cos, sin, how) for x, grad in zip(read, grads) if grad is not None
            ]
            if parts:
                d_cos, d_sin = (sum(part[1:], part[0]) for part in zip(*parts))
        return wanted[0], wanted[1], d_cos, d_sin, *(None for _ in back[:4])

    @staticmethod
    def jvp(ctx: Any, d_q: Any, d_k: Any, d_cos: Any, d_sin: Any, *_: Any) -> tuple[Tensor, Tensor]:
        cos, sin, q, k = ctx.saved_tensors
        return (
            _tangent(q, d_q, cos, sin, d_cos, d_sin, ctx.how),
            _tangent(k, d_k, cos, sin, d_cos, d_sin, ctx.how),
        )

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> Any:
        return map_two(rotate_qk, info, in_dims, *inputs)


class RotateAtThisLevel(_SingleLevelFunction):
    """Rotate for autograd alone: without torch.func's rules and setup_context, apply() takes 10 us less."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        Rotate.setup_context(ctx, inputs, None)
        return Rotate.forward(*inputs)

    backward = Rotate.backward
    jvp = Rotate.jvp


class RotateQKAtThisLevel(_SingleLevelFunction):
    """RotateQK, likewise."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, Tensor]:
        RotateQK.setup_context(ctx, inputs, None)
        return RotateQK.forward(*inputs)

    backward = RotateQK.backward
    jvp = RotateQK.jvp


def map_one(turn: Any, info: Any, in_dims: Any, x: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Any:
    """The rule of vmap for what rotates one tensor."""
    fold = Fold(info.batch_size, in_dims[1:3], (cos, sin), How(*words))
    x = fold.tensor(x, in_dims[0])
    return fold.unfold(turn(x, *fold.rows_for(x), *fold.how)), fold.at


def map_two(turn: Any, info: Any, in_dims: Any, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Any:
    fold = Fold(info.batch_size, in_dims[2:4], (cos, sin), How(*words))
    q, k = fold.tensor(q, in_dims[0]), fold.tensor(k, in_dims[1])
    rotated = turn(q, k, *fold.rows_for(q), *fold.how[:4])
    return tuple(map(fold.unfold, rotated)), (fold.at, fold.at)


class Fold:
    """vmap's dimension as a part of the batch."""

    def __init__(self, size: int, dims: tuple[Any, ...], rows: tuple[Tensor, Tensor], how: How) -> None:
        self._size, self._had_batch = size, "b" in how.layout
        self.how = how if self._had_batch else how._replace(layout="b" + how.layout)
        self.at = self.how.layout.index("b")  # where vmap's dimension is in the result
        self._mapped = any(dim is not None for dim in dims)
        self._rows = tuple(map(self._in_front, rows, dims)) if self._mapped else rows

    def _in_front(self, x: Tensor, dim: int | None) -> Tensor:
        return x.expand(self._size, *x.shape) if dim is None else x.movedim(dim, 0)

    def tensor(self, x: Tensor, dim: int | None) -> Tensor:
        x = self._in_front(x, dim)
        return x.movedim(0, self.at).flatten(self.at, self.at + 1) if self._had_batch else x

    def rows_for(self, x: Tensor) -> tuple[Tensor, ...]:
        """x: a folded tensor."""
        batch = x.shape[self.at] // self._size if self._had_batch and self._size else 1
        return tuple(self._folded(rows, batch) for rows in self._rows)

    def _folded(self, rows: Tensor, batch: int) -> Tensor:
        if not self._mapped:
            if rows.dim() == 2 or rows.shape[0] == 1:
                return rows
            rows = rows.expand(self._size, *rows.shape)
        elif rows.dim() == 3:
            rows = rows.unsqueeze(1)
        return rows.expand(self._size, batch, *rows.shape[2:]).flatten(0, 1)

    def unfold(self, y: Tensor) -> Tensor:
        if not self._had_batch:
            return y
        shape = list(y.shape)
        batch = shape[self.at] // self._size if self._size else 0
        return y.reshape(*shape[: self.at], self._size, batch, *shape[self.at + 1 :])
