# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""rotary for torch."""

from ._torch.tables import TensorTable

__all__ = ["TensorTable"]
