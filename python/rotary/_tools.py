"""A longer context, the other pairing, and how exact tables are: what the program's commands of these names do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal

from . import _core
from ._checking import _asked, _loaded
from ._config import ModelRope, Source, _named
from ._memory import positions as _positions
from ._values import Rope
from ._words import Pairing

Path = str | os.PathLike[str]


def extend(
    source: Source,
    length: int,
    *,
    scaling: str | None = None,
    factor: float | None = None,
    trained_length: int | None = None,
    rope: int | None = None,
    pairing: Pairing | None = None,
    output: Path | None = None,
) -> dict[str, Any]:
    """Plan a longer context for a model. What `rotary extend --json` prints, less its version.

    Args:
        source: as of rotary.config.
        length: tokens that the model shall take.
        scaling: "linear", "ntk", "dynamic", "yarn", "llama3", "longrope" or "default". None: all, one recommended.
        factor: None: the published one, else length / trained length. At least 1.
        trained_length: tokens before any scaling. None: what the makers publish, else the config.
        rope: the rope whose part is extended, from 0. None: the first of a text.
        pairing: as of rotary.config.
        output: a folder to make, with the new config.json of the scaling that is asked for or recommended, and
            rotary-extend.md, a note of what changed. Nothing that is there is replaced.

    Returns:
        A dict: methods, each with its config, warnings and pairs; recommended, why, otherwise, published, and more
        (docs/json.md).

    Raises:
        rotary.Error: what rotary.config raises, VALUE (a context that needs no extension, a number out of range), ROPE,
            CONFIG_MISSING (no trained length), FILE.
    """
    words = {
        "scaling": "default" if scaling == "none" else scaling,
        "factor": factor,
        "trained_length": trained_length,
        "rope": rope,
        "pairing": pairing,
        "output": None if output is None else os.fspath(output),
        "call": f"rotary.extend(config, {length}{'' if scaling is None else f', scaling={scaling!r}'})",
    }
    return _loaded(_core._extend(_named(source), length, words))


def convert(
    input: Path,
    output: Path | None = None,
    *,
    to: Pairing | None = None,
    from_: Pairing | None = None,
    form: Literal["pairs", "doubled", "joined", "complex"] | None = None,
    dry_run: bool = False,
    verify: bool = False,
    config: Source | None = None,
    tensors: Sequence[str] | None = None,
    head_dim: int | None = None,
    rotary_dim: int | None = None,
    first: int | None = None,
) -> dict[str, Any]:
    """Convert a checkpoint to the other pairing; or the keys of a KV cache, or a table of cos and sin.

    Values are moved and none is rounded. The output appears whole or not at all.

    Args:
        input: a checkpoint's folder, a repository in the Hugging Face cache, or a file of keys or of a table.
        output: the folder (not there, or empty) or file to write. None only for a dry run.
        to: "half" or "interleaved". Required but for a table whose form says no pairing.
        from_: the pairing before. None: as the files' metadata say, else the config.
        form: of a table to write. None: as in the input.
        dry_run: writes nothing, and says what would change.
        verify: of a checkpoint: undoes the change again and compares the bytes.
        config: of keys: as source of rotary.config; or say head_dim, rotary_dim (None: head_dim) and first (None: 0).
        tensors: names of the keys. None: those named so, as "layers.0.key".

    Returns:
        A dict of what changed: what `rotary convert --json` prints, less its version (docs/convert.md).

    Raises:
        rotary.Error: PAIRING (in that pairing already, or unknown), MODEL_TYPE, TENSOR, SHAPE, DTYPE, FILE, FORMAT,
            CHECK, and what rotary.config raises.
    """
    words = {
        "to": to,
        "from_": from_,
        "form": form,
        "dry_run": dry_run,
        "verify": verify,
        "tensors": tensors,
        "head_dim": head_dim,
        "rotary_dim": rotary_dim,
        "first": first,
    }
    place = None if output is None else os.fspath(output)
    if place is None and not dry_run:
        raise TypeError("[convert] output is required (or dry_run=True)")
    model = None if config is None else _named(config)
    return _loaded(_core._convert(os.fspath(input), place, model, words))


def accuracy(
    source: Source | Rope | ModelRope,
    *,
    rope: int = 0,
    positions: Any = None,
    length: int | None = None,
    tolerance: float = 1e-3,
) -> dict[str, Any]:
    """How far the common ways to make tables are from the exact one. `rotary accuracy --json`, less its version.

    Args:
        source: as of rotary.config, or a rotary.Rope, or an entry of rotary.config.
        rope: which rope of the model, from 0.
        positions: where to measure, [tokens]: as of rotary.Table. None: a sample of each decade.
        length: tokens in play, for scalings that depend on it. None: the context, or the largest position + 1.
        tolerance: the error that the advice allows float32, from 1e-6 to 1.

    Returns:
        A dict: ways, each with its errors in every decade of positions; reach, advice, and more (docs/accuracy.md).

    Raises:
        rotary.Error: what rotary.config raises, ROPE, POSITION (an angle overflows float32).
    """
    places = None if positions is None else _positions(positions)
    words = {"rope": rope, "positions": places, "length": length, "tolerance": tolerance}
    return _loaded(_core._accuracy(_asked(source), words))
