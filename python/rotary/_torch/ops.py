"""The ops rotary::rotate and rotate_qk, with the schema of librotary_torch.so.

Unless that library is loaded, they are defined by torch.library.Library without its autograd, which costs 10 us a call
even under no_grad and breaks torch.func. The gradient is a kernel of the dispatch key Autograd, which graphs of
torch.compile and torch.export reach. Torch's own operations make the gradients of cos and sin, and serve torch.func and
forward mode.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction

from .. import _core
from . import plain
from .plain import How, check, is_plain, is_quiet, parts

_SCHEMAS = (
    "rotate(Tensor x, Tensor cos, Tensor sin, str pairing, str layout, int first=0, bool backward=False) -> Tensor",
    "rotate_qk(Tensor q, Tensor k, Tensor cos, Tensor sin, str pairing, str layout, int first=0, "
    "bool backward=False) -> (Tensor, Tensor)",
)
_NAMES = "rotate", "rotate_qk"  # the first takes one tensor, the second two
_library = torch.library.Library("rotary", "FRAGMENT")
_IS_OURS = not hasattr(torch.ops.rotary, "rotate")  # else librotary_torch.so has defined rotate and rotate_qk
for _schema in _SCHEMAS if _IS_OURS else ():
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))

rotate = torch.ops.rotary.rotate.default
rotate_qk = torch.ops.rotary.rotate_qk.default

_level = torch._C._functorch.peek_interpreter_stack


def like(x: Tensor) -> Tensor:
    """A new tensor in the memory order of x's dimensions, if head_dim is the innermost of them, else contiguous."""
    sizes, strides = x.shape[:-1], x.stride()
    if strides and all(size <= 1 or stride > 1 for size, stride in zip(sizes, strides)):
        return torch.empty_like(x)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


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
    with torch._C._AutoDispatchBelowAutograd():
        return turn(tensors, cos, sin, how)


def _turned(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    """Rotates: the kernel of the ops for all backends."""
    if any(x.device.type != "cpu" or x.dtype == torch.float64 for x in tensors):
        return tuple(like(x).copy_(y) for x, y in zip(tensors, by_formula(tensors, cos, sin, how)))
    outs: Any = (None,) * len(tensors)  # _core makes new ones
    if any(x.dim() > 0 and x.stride(-1) != 1 for x in tensors):  # the C++ part wants a head's elements side by side
        outs, tensors = tuple(map(like, tensors)), [x.contiguous() for x in tensors]
    words = how.first, "backward" if how.backward else "forward"
    table = cos, sin, how.pairing, ""
    if len(tensors) == 2:
        return _core.rotate_qk("rotate_qk", *tensors, table, how.layout, *outs, *words, None)
    return (_core.rotate("rotate", *tensors, table, how.layout, *outs, *words),)


def _fake(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    check(_NAMES[len(tensors) - 1], tensors, cos, sin, how)
    return tuple(map(like, tensors))


def by_formula(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How, name: str = "") -> tuple[Tensor, ...]:
    """Rotates by torch's own operations."""
    check(name or _NAMES[len(tensors) - 1], tensors, cos, sin, how)
    return tuple(plain.rotated(x, cos, sin, how) for x in tensors)


# ---- the gradient of the tensors: the transposed map by the same Function, so that it has a gradient too ----


def recorded(tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    """Rotates: the kernel of the dispatch key Autograd. It runs after torch.func has unwrapped its levels."""
    is_transformed = _level() is not None or torch.autograd.forward_ad._current_level >= 0
    if is_transformed or _records(cos, sin):
        return by_formula(tensors, cos, sin, how)
    return Turn.apply(*tensors, cos, sin, *how) if _records(*tensors) else below(tensors, cos, sin, how)


def _records(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


class Turn(_SingleLevelFunction):  # its apply() takes 10 us less than that of autograd.Function
    """rotary::rotate or rotate_qk with the arguments (*tensors, cos, sin, *how), differentiable in the tensors."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        tensors, cos, sin, ctx.how = parts(inputs)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(cos, sin)
        return below(tensors, cos, sin, ctx.how)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        (cos, sin), how = ctx.saved_tensors, ctx.how._replace(backward=not ctx.how.backward)
        wanted = [grad if needed else None for grad, needed in zip(grads, ctx.needs_input_grad)]
        there = [grad for grad in wanted if grad is not None]
        turned = iter(recorded(there, cos, sin, how) if there else ())
        return *(None if grad is None else next(turned) for grad in wanted), None, None, *(None for _ in how)


def _by_schema(function: Any) -> Any:
    """The function with the arguments and results of the schemas."""

    def called(*inputs: Any) -> Any:
        turned = function(*parts(inputs))
        return turned[0] if len(turned) == 1 else turned

    return called


# By dispatch key; the last one is vmap's (torch 2.9 and older loop over an op that is called by its name).
_KERNELS = {"CompositeExplicitAutograd": _turned, "Autograd": recorded, "FuncTorchBatchedDecomposition": by_formula}
for _name in _NAMES:
    for _key, _kernel in _KERNELS.items():
        if _IS_OURS or _kernel is by_formula:  # librotary_torch.so has the others
            _library.impl(_name, _by_schema(_kernel), _key)
    if _IS_OURS:
        torch.library.register_fake(f"rotary::{_name}", _by_schema(_fake), lib=_library)
