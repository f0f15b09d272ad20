# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""What rotary.patch did, and how to take it back."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import PatchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from .probes import Proof
    from .tables import Agreement


@dataclass(frozen=True)
class PatchedFunction:
    """A rotation function of modeling code.

    Attributes:
        module, name: where it is, as "transformers.models.llama.modeling_llama", "apply_rotary_pos_emb".
        file, line: of the original.
        proof: what it was proved to do, and by which numbers.
        replaced: rotary is in its place.
        reason: why not, where it is kept.
    """

    module: str
    name: str
    file: str
    line: int
    proof: Proof
    replaced: bool
    reason: str = ""

    def __str__(self) -> str:
        done = "replaced" if self.replaced else f"kept ({self.reason})"
        return f"{self.module}.{self.name} ({self.file}:{self.line}) {done}\n    {self.proof}"


@dataclass
class Report:
    """What rotary.patch did: print it, undo() it, or use it in a with statement, which undoes.

    Attributes:
        model_type: as the config says.
        functions: the functions that rotate, and what they were proved to do.
        tables: each rotary module of the model, and the rope that makes the same rows.
        exact: the rotary modules give rotary's exact rows.
        difference: the largest difference of logits on check, None where none was given.
        notes: what to know.
    """

    model_type: str
    functions: tuple[PatchedFunction, ...]
    tables: tuple[Agreement, ...]
    exact: bool
    difference: float | None = None
    notes: tuple[str, ...] = ()
    _undo: list[Callable[[], None]] = field(default_factory=list, repr=False)

    @property
    def active(self) -> bool:
        """False after undo()."""
        return bool(self._undo)

    def undo(self) -> None:
        """Puts the originals back, once: a second call does nothing.

        Other patches of the same functions stay: the originals come back with the last one's undo().

        Raises:
            rotary.PatchError: TORCH, where somebody else has replaced a function since; theirs stays.
        """
        refused = None
        while self._undo:
            try:
                self._undo.pop()()
            except PatchError as error:
                refused = error
        if refused is not None:
            raise refused

    def __enter__(self) -> Report:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()

    def __str__(self) -> str:
        lines = [f"rotary.patch of {self.model_type or 'a model'}{'' if self.active else ', undone'}"]
        lines += [f"  {function}" for function in self.functions]
        lines += [f"  tables: {table}" for table in self.tables]
        lines.append(f"  the rows are {'exact, by rotary' if self.exact else 'those of the model'}")
        if self.difference is not None:
            lines.append(f"  largest difference of logits: {self.difference:g}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
