"""rotary.patch: proves what the functions of a transformers model do, and puts rotary in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from .._core import Error

if TYPE_CHECKING:
    from .patching import Report
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


def patch(
    model: Any,
    *,
    tables: Literal["model", "exact"] = "model",
    check: Mapping[str, Any] | None = None,
    force: bool = False,
) -> Report:
    """Proves how a model of Hugging Face's transformers rotates q and k, and puts rotary in its place.

    Each function that the model's code can call is run on small random numbers and compared with the known rotations,
    and the model's rotary modules with rotary.config(model.config). Functions of the usual shape (q and k, by doubled
    rows of cos and sin) are replaced; others are proved and left alone. No version of transformers is looked at.

    The patch is one for the process: it changes every model that the same modeling code runs, until undo().

    Args:
        model: a torch.nn.Module with a config, as transformers' from_pretrained returns it; not compiled yet.
        tables: "model": the model's own cos and sin, so that float32 logits keep their bits. "exact": its rotary
            modules give rotary's exact rows and no longer need their buffers; for this model only.
        check: arguments of the model, as {"input_ids": ids}: it runs on them before and after, without gradients.
        force: also on devices for which rotary has no kernels, where torch's own operations then rotate.

    Returns:
        A report: print it, undo() it, or use it in a with statement.

    Raises:
        rotary.PatchError: nothing was changed. TORCH: a function that is unknown, ambiguous or somebody else's, none at
            all, or a compiled model; ROPE and PAIRING: config and model disagree; DEVICE; and the codes of
            rotary.config.
        TypeError: what is no such model.
    """
    from . import patching

    return patching.patch(model, tables=tables, check=check, force=force)
