"""Is somebody's rotation right, and if not, what is wrong with it?"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from . import _core
from ._config import ModelRope, Source, _named
from ._memory import positions as _positions
from ._values import Rope
from ._words import Pairing


def _asked(source: Source | Rope | ModelRope | None) -> tuple[Any, ...] | None:
    if source is None:
        return None
    if isinstance(source, ModelRope):
        return "rope", source.rope, source.first
    if isinstance(source, Rope):
        return "rope", source, 0
    return _named(source)


def _tensors(given: Any) -> Any:
    """A path, or a dict of arrays."""
    if isinstance(given, (str, os.PathLike)):
        return os.fspath(given)
    return given if isinstance(given, dict) else {"": given}


def _loaded(answer: str) -> dict[str, Any]:
    import json

    loaded: dict[str, Any] = json.loads(answer)
    return loaded


def _answer(operation: str, source: Any, before: Any, after: Any, words: dict[str, Any]) -> dict[str, Any]:
    pair = _tensors(before), _tensors(after)
    if isinstance(pair[0], str) != isinstance(pair[1], str):
        raise TypeError(f"[{operation}] both must be files, or both arrays or dicts of arrays")
    if words["tensors"] is not None and isinstance(pair[0], dict):
        names = words["tensors"]
        pair = tuple({name: value for name, value in one.items() if name in names} for one in pair)  # type: ignore[assignment]
    if words["positions"] is not None and not isinstance(words["positions"], str):
        words["positions"] = _positions(words["positions"])
    return _loaded(_core._ask(operation, _asked(source), *pair, words))


def check(
    source: Source | Rope | ModelRope,
    input: Any,
    against: Any,
    *,
    tensors: Sequence[str] | None = None,
    positions: Any = None,
    layout: str | None = None,
    rope: int | None = None,
    pairing: Pairing | None = None,
    length: int | None = None,
    tolerance: float | None = None,
    same_position_on_every_axis: bool = False,
) -> dict[str, Any]:
    """Check that tensors are rotated as a config asks. What `rotary check --json` prints, less its version.

    Args:
        source: as of rotary.config, or a rotary.Rope, or an entry of rotary.config.
        input: the tensors before the rotation: an array, a dict of arrays, or the path of a .safetensors, .npy, .npz or
            .pt file.
        against: what an engine made of them, of the same names and shapes.
        tensors: names. None: q and k, whichever is there, else all.
        positions: as of rotary.Table, or the command's "100:116". None: 0, 1, 2, ...
        layout: "bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd" or "flat". None: found.
        rope: which rope of the model, from 0. None: the one that fits.
        pairing: as of rotary.config.
        length: tokens in play. None: the largest position + 1.
        tolerance: the largest difference of an element. None: the rounding of the dtype and of float32 angles.
        same_position_on_every_axis: allows positions of one axis for a rope of coordinates.

    Returns:
        A dict: equal, max_error, tolerance, first (where they differ), tensor, diagnosis (as of diagnose, None where
        equal), and tensors where there are several.

    Raises:
        rotary.Error: what rotary.config raises, SHAPE, DTYPE, TENSOR, POSITION, ROPE.
    """
    words = {
        "tensors": tensors,
        "positions": positions,
        "layout": layout,
        "rope": rope,
        "pairing": pairing,
        "length": length,
        "tolerance": tolerance,
        "same_position_on_every_axis": same_position_on_every_axis,
    }
    return _answer("check", source, input, against, words)


def diagnose(
    before: Any,
    after: Any,
    *,
    config: Source | Rope | ModelRope | None = None,
    tensors: Sequence[str] | None = None,
    positions: Any = None,
    layout: str | None = None,
    rope: int | None = None,
    pairing: Pairing | None = None,
    length: int | None = None,
    scores: bool = False,
    same_position_on_every_axis: bool = False,
) -> dict[str, Any]:
    """Find out what a rotation did to tensors, and what is wrong with it.

    What `rotary diagnose --json` prints, less its version.

    Args:
        before: an array, a dict of arrays, or the path of a .safetensors, .npy, .npz or .pt file.
        after: what was made of them, of the same names and shapes.
        config: what was asked: as source of check(). None: what the tensors tell of themselves.
        scores: the tensors are q.k before and after, [..., tokens of q, tokens of k].
        tensors, positions, layout, rope, pairing, length, same_position_on_every_axis: as of check().

    Returns:
        A dict: verdict, sentence, findings, pairing, direction, first, rotary_dim, positions, inv_freq, axis, base,
        scaling, scaling_parameters, attention_factor, precision, layout, heads, residual, and tensors where there are
        several.

    Raises:
        rotary.Error: as check().
    """
    words = {
        "tensors": tensors,
        "positions": positions,
        "layout": layout,
        "rope": rope,
        "pairing": pairing,
        "length": length,
        "scores": scores,
        "same_position_on_every_axis": same_position_on_every_axis,
    }
    return _answer("diagnose", config, before, after, words)
