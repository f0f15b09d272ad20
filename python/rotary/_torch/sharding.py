# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc,untyped-decorator"
"""The ops on DTensors, sharded by batch, tokens or heads."""

from __future__ import annotations

import functools
import sys
from typing import Any

from torch import Tensor

from . import ops
from .plain import How


def is_dtensor(x: Any) -> bool:
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(x, module.DTensor)


def replicated(rows: Tensor, x: Any) -> Any:
    """cos or sin beside a DTensor: whole on every process, which has it already."""
    from torch.distributed.tensor import DTensor, Replicate

    _register()
    if isinstance(rows, DTensor):
        return rows
    mesh = x.device_mesh
    return DTensor.from_local(rows.to(mesh.device_type), mesh, [Replicate()] * mesh.ndim, run_check=False)


@functools.cache
def _register() -> None:
    from torch.distributed.tensor.experimental import register_sharding

    @register_sharding(ops.rotate)
    def _of_one(x: Any, cos: Any, sin: Any, *words: Any) -> Any:
        return _placements(1, cos, words)

    @register_sharding(ops.rotate_qk)
    def _of_two(q: Any, k: Any, cos: Any, sin: Any, *words: Any) -> Any:
        return _placements(2, cos, words)


def _placements(tensors: int, cos: Any, words: tuple[Any, ...]) -> list[tuple[list[Any], list[Any]]]:
    """(of the results, of the arguments) for one dimension of a mesh: what each way to shard asks of the rows."""
    from torch.distributed.tensor import Replicate, Shard

    how = How(*words)
    ways: list[tuple[Any, Any]] = [(Replicate(), Replicate())]
    for at, letter in enumerate(how.layout[:-1]):
        if letter == "t":
            ways.append((Shard(at), Shard(1 if cos.ndim > 3 else cos.ndim - 2)))
        elif letter == "b":
            ways.append((Shard(at), Shard(0) if cos.ndim > 2 and cos.shape[0] > 1 else Replicate()))
        elif how.kv_heads <= 0 and cos.ndim < 4:  # of a packed tensor one process would have only v
            ways.append((Shard(at), Replicate()))
    return [([one] * tensors, [one] * tensors + [rows, rows, *(None for _ in words)]) for one, rows in ways]
