# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc,untyped-decorator"
"""rotary.rotate and its family on torch's tensors.

Plain tensors on the CPU without a recorded gradient go straight to the C++ part, which reads their memory. If their
memory alone is not enough, because a mode, a transform or a subclass takes part, the call goes to the ops.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import torch
from torch import Tensor

from .. import _core
from .._tables import Table, refuse_xpos
from .._words import check_layout, check_word, fail
from . import ops, plain
from .plain import TYPES, How, check, check_scale, is_plain, is_quiet
from .tables import TensorTable, rows_beside

_Error = _core.Error
_records = torch.is_grad_enabled
_is_compiling = torch.compiler.is_dynamo_compiling


def _goes_straight(table: Any, *tensors: Any) -> bool:
    if not is_quiet():
        return False
    for x in tensors:
        if not is_plain(x) or x.dtype is torch.float64:
            return False
    if type(table) is not Table:
        if type(table) is not TensorTable or not _has_plain_rows(table):
            return False
        tensors += (table._torch_cos, table._torch_sin)
    if _records():
        for x in tensors:
            if x.requires_grad:
                return False
    return True


def _has_plain_rows(table: TensorTable) -> bool:
    cos, sin, checked = table._torch_cos, table._torch_sin, table._checked
    if checked is None or checked[0] is not cos or checked[1] is not sin:
        if not is_plain(cos) or not is_plain(sin):
            return False
        table._checked = cos, sin
    return True


def _lie_side_by_side(*tensors: Any) -> bool:
    return all(not isinstance(x, Tensor) or ops.lies_side_by_side(x) for x in tensors)


def _overlap(a: Tensor, b: Tensor) -> bool:
    """Whether a and b, of one dtype, share an element, as views of one memory may."""
    memory = a.untyped_storage()
    if memory.data_ptr() != b.untyped_storage().data_ptr() or a.dtype != b.dtype:
        return False
    marks = torch.zeros(memory.nbytes() // a.element_size(), dtype=torch.bool)
    marks.as_strided(a.shape, a.stride(), a.storage_offset()).fill_(True)
    return bool(marks.as_strided(b.shape, b.stride(), b.storage_offset()).any())


def _written(out: Tensor) -> Tensor:
    """Tells autograd, which may have saved the tensor for its backward, that it was written to."""
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)
    return out


# ---- by an op, or by torch's own ops ----


def _rows(operation: str, table: Any, x: Any) -> tuple[Tensor, Tensor]:
    if type(x) not in TYPES and _is_dtensor(x) and isinstance(table, Table | TensorTable):
        rows = (table.cos, table.sin) if isinstance(table, TensorTable) else (table._torch_cos, table._torch_sin)
        return _replicated(rows[0], x), _replicated(rows[1], x)
    if isinstance(table, TensorTable):
        return table.cos, table.sin
    if not isinstance(table, Table):
        hint = "of rows with rotary.from_doubled (frameworks' doubled rows) or rotary.from_rows"
        rule = f"table must be a rotary.Table but got {type(table).__name__}"
        raise TypeError(f"[{operation}] {rule}: make one with rotary.Table(rope, positions), or {hint}")
    return rows_beside(table, x)


def _how(operation: str, table: Any, layout: Any, first: Any, direction: Any, stores: Any, kv_heads: int = -1) -> How:
    check_layout(operation, layout)
    check_word(operation, "direction", direction)
    check_word(operation, "stores", stores)
    return How(table.pairing, layout, first, direction == "backward", kv_heads)


def _is_fused(x: Tensor, layout: str) -> bool:
    """Whether torch's own ops suit a compiler better than the op, whose call costs it 25 us: for one token, and on a
    device without kernels.
    """
    if "t" not in layout or x.shape[layout.index("t")] == 1:
        return True
    return x.device.type not in ("cpu", "meta") and not ops.has_cuda_kernels(x)


def _by_function(*tensors: Tensor) -> bool:
    """Whether autograd.Function is needed: for a gradient, a tangent, or any level of functorch but functionalize."""
    if ops.records(*tensors):
        return True
    level = ops.levels()
    return level is not None and level.key() != torch._C._functorch.TransformType.Functionalize


def _by_op(operation: str, tensors: tuple[Any, ...], table: Any, *words: Any, scale: Any = None) -> tuple[Tensor, ...]:
    """Rotates x, or q and k."""
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"[{operation}] an array must be a tensor as the others are but got {type(x).__name__}")
    cos, sin = _rows(operation, table, tensors[0])
    if len(tensors) == 2:
        refuse_xpos(operation, table)
    how = _how(operation, table, *words)
    if scale is not None:
        return _by_scaled_rows(operation, tensors, cos, sin, how, scale)
    return _turned(operation, tensors, cos, sin, how)


def _turned(operation: str, tensors: tuple[Any, ...], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    if _is_compiling() and _is_fused(tensors[0], how.layout):
        check(operation, tensors, cos, sin, how)
        return tuple(plain.rotated(x, cos, sin, how) for x in tensors)
    turn = ops.turn_recorded if not _is_compiling() and _by_function(*tensors, cos, sin) else ops.turn
    return turn(tensors, cos, sin, how)


def _by_scaled_rows(
    operation: str, tensors: tuple[Tensor, ...], cos: Tensor, sin: Tensor, how: How, given: Any
) -> tuple[Tensor, ...]:
    """Rotates q by the rows times the factors of its tokens, and k by the rows."""
    q, k = tensors
    scale = torch.as_tensor(given, device=q.device)
    check(operation, tensors, cos, sin, how)
    check_scale(operation, q, scale, how)
    if type(q) not in TYPES and _is_dtensor(q):
        scale = _replicated(scale, q)
    rows = plain.times(cos, scale, q), plain.times(sin, scale, q)
    (q_out,), (k_out,) = _turned(operation, (q,), *rows, how), _turned(operation, (k,), cos, sin, how)
    return plain.multiplied(q_out, scale, how, 2 * cos.shape[-1]), k_out


def _into(operation: str, x: Tensor, out: Any, y: Tensor) -> Tensor:
    """Copies the result y into out, which is x in an operation with an underscore."""
    if not isinstance(out, Tensor):
        raise TypeError(f"[{operation}] out must be a tensor as the others are but got {type(out).__name__}")
    if operation.endswith("_"):
        if torch.is_grad_enabled() and x.requires_grad and x.is_leaf:
            rule = "a leaf that records a gradient must not be written to"
            hint = "without the underscore the functions return a new tensor"
            fail("TORCH", operation, f"{rule}: {hint}; or call it under torch.no_grad()")
        return x.copy_(y)
    if torch.is_grad_enabled() and (out.requires_grad or y.requires_grad):
        rule = "a result that records a gradient must not go to out"
        fail("TORCH", operation, f"{rule}: leave out=None, or call it under torch.no_grad()")
    if out.shape != y.shape:
        fail("SHAPE", operation, f"out must have the shape {list(y.shape)} but got {list(out.shape)}")
    if out.dtype != y.dtype:
        fail("DTYPE", operation, f"out must have the type {y.dtype} but got {out.dtype}")
    return out.copy_(y)


# ---- DTensors, sharded by batch, tokens or heads ----


def _is_dtensor(x: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def _replicated(rows: Tensor, x: Any) -> Any:
    """cos or sin as a replicated DTensor beside x, since every process has it whole."""
    from torch.distributed.tensor import DTensor, Replicate

    _register()
    if isinstance(rows, DTensor):
        return rows
    mesh = x.device_mesh
    return DTensor.from_local(rows.to(mesh.device_type), mesh, [Replicate()] * mesh.ndim, run_check=False)


@functools.cache
def _register() -> None:
    from torch.distributed.tensor.experimental import register_sharding

    register_sharding(ops.rotate)(functools.partial(_placements, 1))
    register_sharding(ops.rotate_qk)(functools.partial(_placements, 2))


def _placements(tensors: int, *inputs: Any) -> list[tuple[list[Any], list[Any]]]:
    """For each way to shard along one dimension of a mesh, the placements of the results and those of the arguments."""
    from torch.distributed.tensor import Replicate, Shard

    cos, words = inputs[tensors], inputs[tensors + 2 :]
    how = How(*words)
    ways: list[tuple[Any, Any]] = [(Replicate(), Replicate())]
    for at, letter in enumerate(how.layout[:-1]):
        if letter == "t":
            ways.append((Shard(at), Shard(1 if cos.ndim > 3 else cos.ndim - 2)))
        elif letter == "b":
            ways.append((Shard(at), Shard(0) if cos.ndim > 2 and cos.shape[0] > 1 else Replicate()))
        elif how.kv_heads <= 0 and cos.ndim < 4:  # one process would have v of a packed tensor alone
            ways.append((Shard(at), Replicate()))
    return [([one] * tensors, [one] * tensors + [rows, rows, *(None for _ in words)]) for one, rows in ways]


# ---- the functions that rotary._rotating calls; out may be the tensor that is rotated ----


def rotate(
    operation: str, x: Any, table: Any, layout: Any, out: Any, first: Any, direction: Any, stores: Any, kv_heads: Any
) -> Any:
    """Rotates one tensor by the named operation. kv_heads: the number of heads of k, for rotate_qkv and rotate_qkv_."""
    new = out is None
    if not _is_compiling() and (_goes_straight(table, x) if new or out is x else _goes_straight(table, x, out)):
        try:
            y = _core.rotate(operation, x, table, layout, out, first, direction, stores, kv_heads)
        except _Error:
            if _lie_side_by_side(x, out):
                raise
        else:
            return y if new else _written(out)
    packed: tuple[Any, ...] = ()
    if operation.startswith("rotate_qkv"):
        if kv_heads < 0:
            fail("SHAPE", operation, f"kv_heads must not be negative but got {kv_heads}")
        packed = (kv_heads,)
    (y,) = _by_op(operation, (x,), table, layout, first, direction, stores, *packed)
    return y if new else _into(operation, x, out, y)


def rotate_qk(
    operation: str, q: Any, k: Any, table: Any, layout: Any, q_out: Any, k_out: Any,
    first: Any, direction: Any, stores: Any, scale: Any = None,
) -> Any:  # fmt: skip
    new = q_out is None
    outs: tuple[Any, ...] = () if new or (q_out is q and k_out is k) else (q_out, k_out)
    if isinstance(scale, Tensor):
        outs += (scale,)
    if not _is_compiling() and _goes_straight(table, q, k, *outs):
        try:
            pair: tuple[Any, ...] = _core.rotate_qk(
                operation, q, k, table, layout, q_out, k_out, first, direction, stores, scale
            )
        except _Error:
            if _lie_side_by_side(q, k, *outs):
                raise
        else:
            return pair if new else (_written(q_out), _written(k_out))
    if operation == "rotate_qk_":
        if q is k:
            fail("ALIAS", operation, "q and k must be apart but got one tensor: use rotary.rotate_")
        if not _is_compiling() and is_quiet() and is_plain(q) and is_plain(k) and _overlap(q, k):
            fail("ALIAS", operation, "what is written to q must not overlap k but their elements overlap")
    pair = _by_op(operation, (q, k), table, layout, first, direction, stores, scale=scale)
    return pair if new else (_into(operation, q, q_out, pair[0]), _into(operation, k, k_out, pair[1]))
