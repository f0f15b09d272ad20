"""The checks of the ops, by shapes alone, and the rotation by torch's own ops.

The latter serves float64, devices without kernels, and the gradients of cos and sin. Its arithmetic is float32 (float64
for float64): product, product, sum, then one rounding to the tensor's type.
"""

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .. import _core, _words
from .._words import check_layout, check_pairing, fail, size_of

# ---- whether a call needs nothing of its tensors but their memory ----

_keys = torch._C._dispatch_keys
_number = getattr(torch._C.DispatchKeySet, "raw_repr", repr)  # a number for a set of keys; in torch 2.4 its text
_included = torch._C._dispatch_tls_local_include_set
TYPES = (Tensor, torch.nn.Parameter)


def _ordinary() -> tuple[frozenset[Any], frozenset[Any]]:
    """The dispatch keys of a thread without modes and of plain tensors of the CPU, with and without inference mode.

    A new thread is asked, because this module may be imported under a mode.
    """
    found: list[Any] = []

    def ask() -> None:
        for inference in (False, True):
            with torch.inference_mode(inference):
                found.append((_number(_included()), _number(_keys(torch.empty(1, device="cpu")))))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    modes, plain_keys = zip(*found)
    return frozenset(modes), frozenset(plain_keys)


_NO_MODES, _PLAIN = _ordinary()
# Whether no mode, level of functorch or of dual numbers, tracer or profiler must see a call; and whether x is plain
# memory of the CPU: no subclass, fake or wrapped tensor, negated view or memoryless zeros.
is_quiet, is_plain = _core._is_quiet, _core._is_plain


def can_be_read(*tensors: Tensor) -> bool:
    """Whether the numbers of the tensors can be read now, from the CPU's memory."""
    return not torch.compiler.is_dynamo_compiling() and is_quiet() and all(map(is_plain, tensors))


def _written(out: Tensor) -> None:
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)


def for_core() -> tuple[Any, ...]:
    """The facts by which _core decides this (class Torch of src/rotate.cpp)."""
    return (
        *TYPES, _included, _number, _NO_MODES, torch._C._len_torch_function_stack, torch.autograd.forward_ad,
        torch.autograd._profiler_enabled, _keys, _PLAIN, torch.is_grad_enabled, _written,
    )  # fmt: skip


# ---- arguments and shapes ----


class How(NamedTuple):
    """The arguments of a rotation beside its tensors."""

    pairing: Any  # a str
    layout: Any
    first: int = 0
    backward: bool = False

    def interleaves(self) -> list[bool]:
        """Whether the two of a pair are neighbours where they are read, and where they are written."""
        crossed = self.pairing == "interleaved_to_half"
        return [self.pairing == "interleaved" or (crossed and self.backward == back) for back in (False, True)]


def parts(inputs: tuple[Any, ...]) -> tuple[list[Tensor], Tensor, Tensor, How]:
    """Splits the ops' arguments, (x, cos, sin, *how) or (q, k, cos, sin, *how), into (tensors, cos, sin, how)."""
    count = 2 if isinstance(inputs[3], Tensor) else 1
    return list(inputs[:count]), inputs[count], inputs[count + 1], How(*inputs[count + 2 :])


def _wide(x: Tensor) -> torch.dtype:
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def _members(x: Tensor, pairs: int, first: int, interleaved: bool) -> tuple[Tensor, Tensor]:
    block = x.narrow(-1, first, 2 * pairs).to(_wide(x))
    if interleaved:
        return block[..., ::2], block[..., 1::2]
    return block[..., :pairs], block[..., pairs:]


def _spread(rows: Tensor, how: How, x: Tensor) -> Tensor:
    """The rows in the dimensions of the layout, with size 1 for those that they lack, in the type of the arithmetic."""
    wide = rows.to(_wide(x))
    if wide.dim() == 2:
        wide = wide.unsqueeze(0)
    if wide.dim() == 3:
        wide = wide.unsqueeze(2)
    else:  # heads of a group share its row
        wide = wide.repeat_interleave(size_of(how.layout, x.shape, "h") // wide.shape[2], 2)
    letters = how.layout[:-1]
    order = ["bth".index(letter) for letter in [one for one in "bth" if one not in letters] + [*letters]]
    return wide.permute(*order, 3).flatten(0, 4 - len(how.layout))


def rotated(x: Tensor, cos: Tensor, sin: Tensor, how: How) -> Tensor:
    """The rotated x, differentiable. The elements that do not rotate are kept."""
    c, s = _spread(cos, how, x), _spread(sin, how, x)
    if how.backward:
        s = -s
    pairs, (reads, writes) = c.shape[-1], how.interleaves()
    a, b = _members(x, pairs, how.first, reads)
    two = (a * c - b * s).to(x.dtype), (b * c + a * s).to(x.dtype)
    block = torch.stack(two, -1).flatten(-2) if writes else torch.cat(two, -1)
    if x.shape[-1] == 2 * pairs:
        return block
    return torch.cat((x[..., : how.first], block, x[..., how.first + 2 * pairs :]), -1)


def times(rows: Tensor, scale: Tensor, x: Tensor) -> Tensor:
    """The rows times the factors of x's tokens, [tokens] or [batch, tokens], in the type of the arithmetic."""
    wide = _wide(x)
    return rows.to(wide) * scale.to(wide)[(...,) + (None,) * (2 if rows.dim() == 4 else 1)]


def multiplied(y: Tensor, scale: Tensor, how: How, width: int) -> Tensor:
    """y with all elements but the rotated block of that width multiplied by the factors."""
    if width == y.shape[-1]:
        return y
    factors = _spread(scale[..., None], how, y)
    before, block, behind = y.split([how.first, width, y.shape[-1] - how.first - width], -1)
    rest = [(part.to(_wide(y)) * factors).to(y.dtype) for part in (before, behind)]
    return torch.cat((rest[0], block, rest[1]), -1)


# ---- checks ----


def check_dense(operation: str, x: Tensor) -> None:
    if x.is_nested or x.layout is not torch.strided:
        kind = "a nested one" if x.is_nested else str(x.layout)
        fail("TORCH", operation, f"a tensor must be dense but got {kind}: pass x.to_dense() or x.values()")


def check_rows(operation: str, cos: Tensor, sin: Tensor) -> None:
    for rows in (cos, sin):
        if not _is_float(rows):
            fail("DTYPE", operation, f"cos and sin must hold floats but got {rows.dtype}")
    _words.check_rows(operation, cos.shape, sin.shape)


def _is_float(x: Tensor) -> bool:
    return x.dtype.is_floating_point and x.dtype.itemsize > 1


def check(operation: str, tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> None:
    check_layout(operation, how.layout)
    check_pairing(operation, how.pairing)
    check_rows(operation, cos, sin)
    check_heads(operation, tensors, cos, sin, how)


def check_heads(operation: str, tensors: Sequence[Tensor], cos: Tensor, sin: Tensor, how: How) -> None:
    """Checks the tensors beside their rows, which must have been checked."""
    for x in tensors:
        name = "x" if len(tensors) == 1 else "q" if x is tensors[0] else "k"
        if not _is_float(x):
            fail("DTYPE", operation, f"{name} must be float32, float16, bfloat16 or float64 but got {x.dtype}")
        if not x.device == cos.device == sin.device:
            rule = f"{name}, cos and sin must be on one device"
            fail("DEVICE", operation, f"{rule} but got {x.device}, {cos.device} and {sin.device}")
        _words.check_heads(operation, name, x.shape, cos.shape, how.layout, how.first)


def check_scale(operation: str, q: Tensor, scale: Tensor, how: How) -> None:
    """Refuses a query_scale that does not fit q. The shape of q must have been checked."""
    if not _is_float(scale):
        fail("DTYPE", operation, f"query_scale must hold floats but got {scale.dtype}")
    _words.check_scale(operation, q.shape, scale.shape, how.layout)
    if can_be_read(scale) and not bool(scale.isfinite().all()):
        at = int(scale.isfinite().flatten().logical_not().nonzero()[0])
        fail("VALUE", operation, f"query_scale must be finite but is not at element {at}")
