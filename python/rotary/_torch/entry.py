"""rotary.rotate and its family on tensors of torch whose memory alone is not enough for the C++ part.

A gradient, a mode, a transform or a subclass takes part, the tensors are on another device, or torch.compile traces.
"""

import sys
from typing import Any

import torch
from torch import Tensor

from .._tables import Table
from .._words import check_layout, check_word, fail
from . import ops, plain
from .plain import TYPES, How, check, check_dense, check_heads, check_scale, is_plain, is_quiet
from .tables import TensorTable, rows_beside

_is_compiling = torch.compiler.is_dynamo_compiling


def _overlap(a: Tensor, b: Tensor) -> bool:
    """Whether a and b, of one dtype, share an element, as views of one memory may."""
    memory = a.untyped_storage()
    if memory.data_ptr() != b.untyped_storage().data_ptr() or a.dtype != b.dtype:
        return False
    marks = torch.zeros(memory.nbytes() // a.element_size(), dtype=torch.bool)
    marks.as_strided(a.shape, a.stride(), a.storage_offset()).fill_(True)
    return bool(marks.as_strided(b.shape, b.stride(), b.storage_offset()).any())


# ---- by an op, or by torch's own ops ----


def _rows(operation: str, table: Any, x: Any) -> tuple[Tensor, Tensor]:
    if type(x) not in TYPES and _is_dtensor(x) and isinstance(table, Table | TensorTable):
        return _replicated(table._torch_cos, x), _replicated(table._torch_sin, x)
    if isinstance(table, TensorTable):
        return table.cos, table.sin
    if not isinstance(table, Table):
        rule = "table must be a rotary.Table, or a result of rotary.from_doubled or rotary.from_rows, but got"
        raise TypeError(f"[{operation}] {rule} {type(table).__name__}")
    return rows_beside(table, x)


def _is_fused(x: Tensor, layout: str) -> bool:
    """Whether torch's own ops suit a compiler better than the op, whose call costs it 25 us: for one token, and on
    other devices than the CPU.
    """
    return "t" not in layout or x.shape[layout.index("t")] == 1 or x.device.type not in ("cpu", "meta")


def _by_op(
    operation: str, tensors: tuple[Any, ...], table: Any, layout: Any, first: Any, direction: Any, scale: Any = None
) -> tuple[Tensor, ...]:
    """Rotates x, or q and k."""
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"[{operation}] an array must be a tensor as the others are but got {type(x).__name__}")
        check_dense(operation, x)
    layout = check_layout(operation, layout)
    check_word(operation, "direction", direction)
    extra = tensors[0].dim() - len(layout) if layout[0] == "b" else 0
    if extra > 0:  # several dimensions of the batch
        sizes = tensors[0].shape[: extra + 1]
        tensors = tuple(x.flatten(0, extra) if x.shape[: extra + 1] == sizes else x for x in tensors)
    cos, sin = _rows(operation, table, tensors[0])
    how = How(table.pairing, layout, first, direction == "backward")
    if scale is not None:
        results = _by_scaled_rows(operation, tensors, cos, sin, how, scale)
    else:
        results = _turned(operation, tensors, cos, sin, how)
    return tuple(y.unflatten(0, sizes) for y in results) if extra > 0 else results


def turned(
    q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, pairing: str, layout: str, first: int
) -> tuple[Tensor, ...]:
    """Rotates in a graph by rows that torch's operations have made for q. A graph checks what each function here reads
    in every call, so that this one is quicker at one token than rotary.rotate_qk.
    """
    if not _is_fused(q, layout):
        return ops.rotate_qk(q, k, cos, sin, pairing, layout, first, False)
    how = How(pairing, layout, first, False)
    check_heads("rotate_qk", (q, k), cos, sin, how)
    return plain.rotated(q, cos, sin, how), plain.rotated(k, cos, sin, how)


def _turned(operation: str, tensors: tuple[Any, ...], cos: Tensor, sin: Tensor, how: How) -> tuple[Tensor, ...]:
    is_fused = torch.compiler.is_compiling() and _is_fused(tensors[0], how.layout)  # by torch.export too
    if is_fused or (type(tensors[0]) not in TYPES and _is_dtensor(tensors[0])):
        return ops.by_formula(tensors, cos, sin, how, operation)
    return (ops.turn if _is_compiling() else ops.recorded)(tensors, cos, sin, how)


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


def _check_out(operation: str, x: Tensor, out: Any, y: Tensor) -> None:
    """Refuses an out that the result y cannot be copied to. It is x in an operation with an underscore."""
    if not isinstance(out, Tensor):
        raise TypeError(f"[{operation}] out must be a tensor as the others are but got {type(out).__name__}")
    if operation.endswith("_"):
        whole = x if x._base is None else x._base
        if torch.is_grad_enabled() and x.requires_grad and whole.is_leaf:
            rule = "a leaf that records a gradient, or a view of one, must not be written to"
            hint = "without the underscore the functions return a new tensor"
            fail("TORCH", operation, f"{rule}: {hint}; or call it under torch.no_grad()")
        return
    if torch.is_grad_enabled() and (out.requires_grad or y.requires_grad):
        rule = "a result that records a gradient must not go to out"
        fail("TORCH", operation, f"{rule}: leave out=None, or call it under torch.no_grad()")
    if out.shape != y.shape:
        fail("SHAPE", operation, f"out must have the shape {list(y.shape)} but got {list(out.shape)}")
    if out.dtype != y.dtype:
        fail("DTYPE", operation, f"out must have the type {y.dtype} but got {out.dtype}")


def _into(operation: str, tensors: tuple[Any, ...], outs: tuple[Any, ...], results: tuple[Tensor, ...]) -> Any:
    """Copies the results into outs, all or none of them."""
    for triple in zip(tensors, outs, results):
        _check_out(operation, *triple)
    return tuple(out.copy_(y) for out, y in zip(outs, results))


# ---- DTensors, sharded by batch, tokens or heads ----


def _is_dtensor(x: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def _replicated(rows: Tensor, x: Any) -> Any:
    """cos or sin as a replicated DTensor beside x, since every process has it whole."""
    from torch.distributed.tensor import DTensor, Replicate

    if isinstance(rows, DTensor):
        return rows
    mesh = x.device_mesh
    return DTensor.from_local(rows.to(mesh.device_type), mesh, [Replicate()] * mesh.ndim, run_check=False)


# ---- the functions that rotary._rotating calls; out may be the tensor that is rotated ----


def rotate(operation: str, x: Any, table: Any, layout: Any, out: Any, first: Any, direction: Any) -> Any:
    """Rotates one tensor by the named operation."""
    results = _by_op(operation, (x,), table, layout, first, direction)
    return (results if out is None else _into(operation, (x,), (out,), results))[0]


def rotate_qk(
    operation: str, q: Any, k: Any, table: Any, layout: Any, q_out: Any, k_out: Any, first: Any, direction: Any,
    scale: Any = None,
) -> Any:  # fmt: skip
    if operation == "rotate_qk_":
        if q is k:
            fail("ALIAS", operation, "q and k must be apart but got one tensor: use rotary.rotate_")
        if not _is_compiling() and is_quiet() and is_plain(q) and is_plain(k) and _overlap(q, k):
            fail("ALIAS", operation, "what is written to q must not overlap k but their elements overlap")
    pair = _by_op(operation, (q, k), table, layout, first, direction, scale)
    return pair if q_out is None else _into(operation, (q, k), (q_out, k_out), pair)
