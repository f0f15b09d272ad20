"""Types of arguments that several functions take."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias


class SupportsDlpack(Protocol):
    """An array of numpy, torch, JAX or another library with DLPack."""

    def __dlpack__(self, *args: Any, **kwargs: Any) -> Any: ...


class Pretrained(Protocol):
    """A transformers.PretrainedConfig."""

    def to_dict(self) -> dict[str, Any]: ...


class Configured(Protocol):
    """A model of transformers."""

    config: Any


Source: TypeAlias = str | bytes | os.PathLike[str] | Mapping[str, Any] | Pretrained | Configured
_Rows: TypeAlias = Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]]
Positions: TypeAlias = int | float | range | Sequence[float] | _Rows | SupportsDlpack | memoryview

if TYPE_CHECKING:
    import torch
    from typing_extensions import Buffer

    from ._config import ModelRope, Ropes
    from ._rope import Rope
    from ._tables import Frequencies, Table
    from ._torch.patching import Report as Report
    from .torch import TensorTable

    AnyArray: TypeAlias = SupportsDlpack | Buffer
    AnyRope: TypeAlias = Rope | Frequencies | ModelRope | Ropes | Source
    AnyTable: TypeAlias = Table | TensorTable
    Device: TypeAlias = torch.device
    Dtype: TypeAlias = torch.dtype
    Tensor: TypeAlias = torch.Tensor
else:  # without torch, before Python 3.12, and for modules that import each other
    AnyArray = AnyRope = AnyTable = Tensor = Device = Dtype = Report = Any
