# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""The ops rotary::rotate, rotate_qk and rows, the first two by the schema of librotary_torch.so (rotary_torch/op/op.cpp).

Defined by torch.library.Library, without its autograd: that costs 10 us a call even under no_grad, and breaks
torch.func. The gradient is a kernel of the dispatch key Autograd, which the graphs of torch.compile and torch.export
reach, and eager calls only where autograd.Function was not called before.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from .. import _core
from .._words import fail
from . import cuda, plain
from .checks import check
from .guards import is_plain, is_quiet
from .plain import How
from .ropes import positions_shape, read_rope

_SCHEMAS = (
    "rotate(Tensor x, Tensor cos, Tensor sin, str pairing, str layout, int first=0, bool backward=False, "
    "int kv_heads=-1) -> Tensor",
    "rotate_qk(Tensor q, Tensor k, Tensor cos, Tensor sin, str pairing, str layout, int first=0, "
    "bool backward=False) -> (Tensor, Tensor)",
    "rows(Tensor positions, str rope, int? length) -> (Tensor, Tensor)",
)
_library = torch.library.Library("rotary", "FRAGMENT")
_IS_OURS = not hasattr(torch.ops.rotary, "rotate")  # librotary_torch.so has defined rotate and rotate_qk
for _schema in _SCHEMAS if _IS_OURS else _SCHEMAS[2:]:
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))

rotate = torch.ops.rotary.rotate.default
rotate_qk = torch.ops.rotary.rotate_qk.default
rows = torch.ops.rotary.rows.default

BELOW = torch._C._AutoDispatchBelowAutograd


def like(x: Tensor) -> Tensor:
    """A new tensor with x's order of dimensions in memory, unless head_dim is not the innermost one there."""
    sizes, strides = x.shape[:-1], x.stride()
    if strides and all(size <= 1 or stride > 1 for size, stride in zip(sizes, strides)):
        return torch.empty_like(x)
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def has_kernels(x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype != torch.float64


def lies_side_by_side(x: Tensor) -> bool:
    """What the C++ part asks of head_dim."""
    return x.dim() == 0 or x.stride(-1) == 1


def _direction(how: How) -> Literal["forward", "backward"]:
    return "backward" if how.backward else "forward"


def _by_torch(operation: str, name: str, x: Tensor, cos: Tensor, sin: Tensor, how: How) -> Tensor:
    check(operation, name, x, cos, sin, how)
    return like(x).copy_(plain.rotated(x, cos, sin, how))


def _on_cuda(operation: str, cos: Tensor, sin: Tensor, how: How, x: Tensor, k: Tensor | None = None) -> Any:
    check(operation, "x" if k is None else "q", x, cos, sin, how)
    if k is not None:
        check(operation, "k", k, cos, sin, how)
    given: list[Any] = [one if one is None or lies_side_by_side(one) else one.contiguous() for one in (x, k)]
    outs = like(x), None if k is None else like(k)
    cuda.rotate(cos, sin, how, given[0], outs[0], given[1], outs[1])
    return outs


# ---- kernels: of any backend ----


def rotate_below(x: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Tensor:
    """The op below autograd, without the dispatcher where nobody would see it there."""
    if is_quiet() and is_plain(x) and is_plain(cos) and is_plain(sin):
        return _rotate(x, cos, sin, *words)
    with BELOW():
        return rotate(x, cos, sin, *words)


def rotate_qk_below(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> tuple[Tensor, Tensor]:
    if is_quiet() and is_plain(q) and is_plain(k) and is_plain(cos) and is_plain(sin):
        return _rotate_qk(q, k, cos, sin, *words)
    with BELOW():
        return rotate_qk(q, k, cos, sin, *words)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Tensor:
    how = How(*words)
    if cuda.has_kernels(x):
        return _on_cuda("rotate", cos, sin, how, x)[0]
    if not has_kernels(x):
        return _by_torch("rotate", "x", x, cos, sin, how)
    table, direction = (cos, sin, how.pairing, ""), _direction(how)
    out = None  # _core makes one like x
    if not lies_side_by_side(x):
        out, x = like(x), x.contiguous()
    if how.kv_heads < 0:
        return _core.rotate("rotate", x, table, how.layout, out, how.first, direction, "automatic")
    return _core.rotate_qkv("rotate_qkv", x, table, how.kv_heads, how.layout, out, how.first, direction, "automatic")


def _rotate_qk(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> tuple[Tensor, Tensor]:
    how = How(*words)
    if cuda.has_kernels(q) and cuda.has_kernels(k):
        return _on_cuda("rotate_qk", cos, sin, how, q, k)
    if not (has_kernels(q) and has_kernels(k)):
        return _by_torch("rotate_qk", "q", q, cos, sin, how), _by_torch("rotate_qk", "k", k, cos, sin, how)
    table = (cos, sin, how.pairing, "")
    outs: tuple[Tensor | None, Tensor | None] = (None, None)
    if not (lies_side_by_side(q) and lies_side_by_side(k)):
        outs, q, k = (like(q), like(k)), q.contiguous(), k.contiguous()
    return _core.rotate_qk("rotate_qk", q, k, table, how.layout, *outs, how.first, _direction(how), "automatic")


def _rows(positions: Tensor, rope: str, length: int | None) -> tuple[Tensor, Tensor]:
    read = read_rope(rope)
    table = read.table(positions.cpu(), length)
    return table._torch_cos.to(positions.device), table._torch_sin.to(positions.device)


# ---- shapes ----


def _fake_rotate(x: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Tensor:
    check("rotate", "x", x, cos, sin, How(*words))
    return like(x)


def _fake_rotate_qk(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> tuple[Tensor, Tensor]:
    how = How(*words)
    check("rotate_qk", "q", q, cos, sin, how)
    check("rotate_qk", "k", k, cos, sin, how)
    return like(q), like(k)


def _fake_rows(positions: Tensor, rope: str, length: int | None) -> tuple[Tensor, Tensor]:
    read = read_rope(rope)
    shape = (*positions_shape(positions, read.axes), read.pairs)
    return (
        torch.empty(shape, dtype=torch.float32, device=positions.device),
        torch.empty(shape, dtype=torch.float32, device=positions.device),
    )


# ---- gradients ----


def records(*tensors: Tensor) -> bool:
    """Whether a gradient would be recorded, or a tangent carried."""
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    return torch.autograd.forward_ad._current_level >= 0


def _rotate_recorded(x: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Any:
    if records(x, cos, sin):
        from . import autograd

        return autograd.at_this_level(autograd.RotateAtThisLevel, x, cos, sin, *How(*words))
    return rotate_below(x, cos, sin, *words)


def _rotate_qk_recorded(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *words: Any) -> Any:
    if records(q, k, cos, sin):
        from . import autograd

        return autograd.at_this_level(autograd.RotateQKAtThisLevel, q, k, cos, sin, *How(*words)[:4])
    return rotate_qk_below(q, k, cos, sin, *words)


def _rows_recorded(positions: Tensor, rope: str, length: int | None) -> Any:
    if torch.is_grad_enabled() and positions.requires_grad:
        fail("TORCH", "rows", "positions must not record a gradient but got requires_grad: pass positions.detach()")
    with BELOW():
        return rows(positions, rope, length)


_KERNELS = (
    ("rotate", _rotate, _fake_rotate, _rotate_recorded),
    ("rotate_qk", _rotate_qk, _fake_rotate_qk, _rotate_qk_recorded),
    ("rows", _rows, _fake_rows, _rows_recorded),
)
for _name, _kernel, _fake, _recorded in _KERNELS if _IS_OURS else _KERNELS[2:]:
    _library.impl(_name, _kernel, "CompositeExplicitAutograd")
    _library.impl(_name, _recorded, "Autograd")
    torch.library.register_fake(f"rotary::{_name}", _fake, lib=_library)


# ---- vmap; torch before 2.5 loops ----


def _map_rotate(info: Any, in_dims: Any, *inputs: Any) -> Any:
    from . import autograd

    return autograd.map_one(rotate, info, in_dims, *inputs)


def _map_rotate_qk(info: Any, in_dims: Any, *inputs: Any) -> Any:
    from . import autograd

    return autograd.map_two(rotate_qk, info, in_dims, *inputs)


if hasattr(torch.library, "register_vmap"):
    torch.library.register_vmap("rotary::rotate", _map_rotate, lib=_library)
    torch.library.register_vmap("rotary::rotate_qk", _map_rotate_qk, lib=_library)
