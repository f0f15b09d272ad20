"""rotary.patch: compares the tables of a transformers model with its config, and puts exact ones in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NoReturn

from ._core import Error

if TYPE_CHECKING:
    from ._torch.patching import Report
else:  # needs torch
    Report = Any


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


def refuse(code: str, rule: str, got: str, hint: str = "") -> NoReturn:
    raise PatchError(code, f"[patch] {rule} but {got}{': ' if hint else ''}{hint}")


def patch(model: Any, *, tables: Literal["model", "exact"] = "model") -> Report:
    """Compares every table of a model of Hugging Face's transformers with its config, and can make them exact.

    Each rotary module is run at positions up to 4093, and its cos and sin must be those of a rope that
    rotary.config(model.config) reads for that part of the model, within the error of float32 angles. Modules are found
    by the frequencies that they keep; no function, name or version of transformers is looked at.

    Args:
        model: a torch.nn.Module with a config, as transformers' from_pretrained returns it.
        tables: "model" compares the model's own cos and sin, and changes nothing. "exact" makes the rotary modules of
            this model give rotary's exact rows, of the dtype, device and form of their own; their buffers are no
            longer read, and what is in them does not matter.

    Returns:
        A report: print it, undo() it, or use it in a with statement, which undoes.

    Raises:
        rotary.PatchError: nothing was changed. ROPE: a table is another than the config's, or cannot be compared; no
            table at all; TORCH: a table that "exact" cannot replace; DEVICE: a table without
            memory; VALUE; and the codes of rotary.config.
        TypeError: what is no such model.
    """
    from ._torch import patching

    return patching.patch(model, tables)
