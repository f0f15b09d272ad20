# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The ops rotary::rotate and rotate_qk, with the schema of librotary_torch.so.

They are defined by torch.library.Library without its autograd, which costs 10 us a call even under no_grad and breaks
torch.func. The gradient is a kernel of the dispatch key Autograd. Graphs of torch.compile and torch.export reach it;
eager calls reach it only if autograd.Function was not called before.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd.function import _SingleLevelFunction

from .. import _core
from . import plain
from .plain import How, check, is_plain, is_quiet, parts

_SCHEMAS = (
    "rotate(Tensor x, Tensor cos, Tensor sin, str pairing, str layout, int first=0, bool backward=False) -> Tensor",
    "rotate_qk(Tensor q, Tensor k, Tensor cos, Tensor sin, str pairing, str layout, int first=0, "
    "bool backward=False) -> (Tensor, Tensor)",
)
_library = torch.library.Library("rotary", "FRAGMENT")
_IS_OURS = not hasattr(torch.ops.rotary, "rotate")  # else librotary_torch.so has defined rotate and rotate_qk
for _schema in _SCHEMAS if _IS_OURS else ():
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))

rotate = torch.ops.rotary.rotate.default
rotate_qk = torch.ops.rotary.rotate_qk.default

BELOW = torch._C._AutoDispatchBelowAutograd
levels = torch._C._functorch.peek_interpreter_stack


def like(x: Tensor) -> Tensor:
    """A new tensor in the memory order of x's dimensions, if head_dim is the innermost of them, else contiguous."""
    sizes, strides = x.shape[:-1], x.stride()
    if strides and all(size <= 1 or stride > 1 for size, stride in zip(sizes, strides)):
        return torch.empty_like(x)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def has_kernels(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype != torch.float64


def lies_side_by_side(x: Tensor) -> bool:
    """Whether the elements of a head are side by side in memory, as the C++ part requires."""
    return x.dim() == 0 or x.stride(-1) == 1


# ---- the CUDA kernels, where _core was built with them (-DROTARY_CUDA=ON) ----

BUILT = _core._gpu_built() and torch.version.cuda is not None


def has_cuda_kernels(x: Tensor) -> bool:
    return BUILT and x.device.type == "cuda" and x.dtype != torch.float64


def _rotate_on_cuda(cos: Tensor, sin: Tensor, how: How, tensors: Sequence[Tensor], outs: Sequence[Tensor]) -> None:
    """Rotates the tensors into outs, which have their shapes, on the device's current stream."""
    rows = [one.to(torch.float32).contiguous() for one in (cos, sin)]
    for x, out in zip(tensors, outs):
        out[..., : how.first].copy_(x[..., : how.first])
    (q, k), (q_out, k_out) = (*tensors, None)[:2], (*outs, None)[:2]
    with torch.cuda.device(cos.device):
        stream = torch.cuda.current_stream(cos.device).cuda_stream
        _core._gpu_rotate(q, k, q_out, k_out, *rows, *how, stream)


# ---- one tensor, or q and k ----


def turn(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    """Rotates by the op."""
    if len(tensors) == 2:
        return rotate_qk(*tensors, cos, sin, *how)
    return (rotate(*tensors, cos, sin, *how),)


def below(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    """Rotates by the op below autograd, without the dispatcher if nothing in it must see the call."""
    if is_quiet() and all(map(is_plain, (*tensors, cos, sin))):
        return _turned(tensors, cos, sin, how)
    with BELOW():
        return turn(tensors, cos, sin, how)


def _turned(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    """Rotates: the kernel of the ops for all backends."""
    operation = "rotate" if len(tensors) == 1 else "rotate_qk"
    outs: Any = (None,) * len(tensors)  # _core makes new ones
    on_cuda = all(map(has_cuda_kernels, tensors))
    if on_cuda or not all(map(has_kernels, tensors)):
        check(operation, tensors, cos, sin, how)
        if not on_cuda:
            return tuple(like(x).copy_(plain.rotated(x, cos, sin, how)) for x in tensors)
    if on_cuda or not all(map(lies_side_by_side, tensors)):
        outs = tuple(map(like, tensors))
        tensors = [x if on_cuda and lies_side_by_side(x) else x.contiguous() for x in tensors]
    if on_cuda:
        _rotate_on_cuda(cos, sin, how, tensors, outs)
        return outs
    words = how.first, "backward" if how.backward else "forward"
    table = cos, sin, how.pairing, ""
    if len(tensors) == 2:
        return _core.rotate_qk(operation, *tensors, table, how.layout, *outs, *words, None)
    return (_core.rotate(operation, *tensors, table, how.layout, *outs, *words),)


def _fake(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    check("rotate" if len(tensors) == 1 else "rotate_qk", tensors, cos, sin, how)
    return tuple(map(like, tensors))


def records(*tensors: Tensor) -> bool:
    """Whether a gradient is recorded, or a tangent is carried."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    return torch.autograd.forward_ad._current_level >= 0


# ---- the gradient: the transposed map by the same Function, so that it has a gradient too ----


def turn_recorded(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    """Rotates by the op and records it for autograd."""
    function: Any = Turn if levels() is not None else TurnAtThisLevel
    return function.apply(*tensors, cos, sin, *how)


def _tangent(x: Tensor, dx: Tensor | None, cos: Tensor, sin: Tensor, d_cos: Any, d_sin: Any, how: How) -> Tensor:
    """The tangent of the rotation, which is linear in x and in (cos, sin)."""
    turned = torch.zeros_like(x) if dx is None else turn_recorded((dx,), cos, sin, how)[0]
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
    """rotary::rotate or rotate_qk with the arguments (*tensors, cos, sin, *how), differentiable in all tensors."""

    @staticmethod
    def forward(*inputs: Any) -> tuple[Tensor, ...]:
        return below(*parts(inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _save(ctx, *parts(inputs))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (cos, sin, *read), how = ctx.saved_tensors, ctx.how
        wanted = [grad if needed else None for grad, needed in zip(grads, ctx.needs_input_grad)]
        there = [grad for grad in wanted if grad is not None]
        turned = iter(turn_recorded(there, cos, sin, how._replace(backward=not how.backward)) if there else ())
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
        return mapped(turn_recorded, info, in_dims, inputs)


class TurnAtThisLevel(_SingleLevelFunction):
    """Turn for autograd alone: apply() takes 10 us less without the rules of torch.func and setup_context."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        given = parts(inputs)
        _save(ctx, *given)
        return below(*given)

    backward = Turn.backward
    jvp = Turn.jvp


def mapped(turns: Any, info: Any, in_dims: tuple[Any, ...], inputs: tuple[Any, ...]) -> Any:
    """vmap's rule for the ops, whose dimension becomes a part of the batch: the results, and its place in each."""
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


def _recorded(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> Any:
    """The kernel of the dispatch key Autograd. It runs after torch.func has unwrapped its levels."""
    if not records(*tensors, cos, sin):
        return below(tensors, cos, sin, how)
    with nullcontext() if levels() is None else enable_single_level_autograd_function():
        return TurnAtThisLevel.apply(*tensors, cos, sin, *how)


def _by_schema(function: Any) -> Any:
    """The function with the arguments and results of the schemas."""

    def called(*inputs: Any) -> Any:
        turned = function(*parts(inputs))
        return turned[0] if len(turned) == 1 else turned

    return called


def _map(info: Any, in_dims: Any, *inputs: Any) -> Any:
    turned, dims = mapped(turn, info, in_dims, inputs)
    return (turned[0], dims[0]) if len(turned) == 1 else (turned, dims)


_KERNELS = {"CompositeExplicitAutograd": _by_schema(_turned), "Autograd": _by_schema(_recorded)}
for _name in ("rotate", "rotate_qk"):
    if _IS_OURS:
        for _key, _kernel in _KERNELS.items():
            _library.impl(_name, _kernel, _key)
        torch.library.register_fake(f"rotary::{_name}", _by_schema(_fake), lib=_library)
    if hasattr(torch.library, "register_vmap"):  # older torch than 2.5 loops
        torch.library.register_vmap(f"rotary::{_name}", _map, lib=_library)
