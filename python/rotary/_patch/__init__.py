"""rotary.patch: proves what the functions of a transformers model do, and puts rotary in their place."""

from __future__ import annotations

from .._core import Error


class PatchError(Error):
    """rotary.patch refused, and changed nothing.

    Attributes:
        code: one word of docs/errors.md.
    """

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code

    def __reduce__(self) -> tuple[type[PatchError], tuple[str, str]]:
        return PatchError, (self.code, str(self))
