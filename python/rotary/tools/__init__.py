"""The program's commands diagnose, extend, convert and accuracy as functions, pictures, and facts of a model.

The commands return what they print with --json, without its version (so does rotary.check). The module
rotary.tools.plot needs matplotlib. ModelRope and Ropes are what rotary.config returns.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from .. import _core, _memory
from .._config import ModelRope, Ropes, _named
from .._rope import Rope
from .._tables import one_rope
from .._types import AnyArray, Positions, Source
from .._words import Pairing, check_pairing

__all__ = [
    "Check", "Diagnosis", "Extension", "ModelRope", "Ropes", "TensorCheck", "accuracy", "convert", "diagnose",
    "extend", "query_scale", "rope_parameters",
]  # fmt: skip

Path = str | os.PathLike[str]
Tensors = AnyArray | Mapping[str, Any] | Path


class Diagnosis(TypedDict):
    """The answer of diagnose(). A value is None where the tensors do not show it. docs/cli.md explains the keys."""

    verdict: str
    sentence: str
    findings: list[str]
    cause: str | None
    numbers: dict[str, Any] | None
    where: Any
    found: list[dict[str, Any]]
    pairing: str | None
    direction: str | None
    first: int | None
    rotary_dim: int | None
    positions: Any
    inv_freq: list[float] | None
    axis: list[int] | None
    base: float | None
    scaling: str | None
    scaling_parameters: dict[str, Any] | None
    attention_factor: float | None
    precision: str | None
    noise: float | None
    layout: str | None
    heads: Any
    residual: float | None
    tensors: NotRequired[dict[str, Any]]


class TensorCheck(TypedDict):
    """The answer of check() for one of several tensors."""

    equal: bool
    verdict: str
    sentence: str
    cause: str | None
    numbers: dict[str, Any] | None
    where: Any
    max_error: float | None
    tolerance: float | None
    worst: dict[str, float | None]
    first: dict[str, int | None] | None
    layout: str | None
    layer: int | None
    rope: Any
    would_show: Any
    would_not_show: Any
    base_shown_from: float | None


class Check(TensorCheck):
    """The answer of rotary.check(): that of the worst tensor, with the largest error of any."""

    tensor: str
    diagnosis: Diagnosis | None
    tensors: NotRequired[dict[str, TensorCheck]]


class Extension(TypedDict):
    """The answer of extend(). docs/cli.md explains the keys."""

    config: str
    model_type: str
    context: int
    trained_length: int
    trained_length_from: str
    smallest_factor: float
    kv_cache_bytes: int | None
    kv_cache_assumes: str | None
    family_publishes: dict[str, Any] | None
    ropes: list[dict[str, Any]]
    methods: list[dict[str, Any]]
    recommended: str
    why: str
    otherwise: str | None
    warnings: list[str]
    written: str | None


def _asked(source: Any) -> tuple[Any, ...]:
    if isinstance(source, Ropes):
        source = one_rope("check", source)
    if isinstance(source, ModelRope):
        return "rope", source.rope, source.first
    if isinstance(source, Rope):
        return "rope", source, 0
    return _named(source)


def _word(pairing: Pairing | None) -> Any:
    return None if pairing is None else check_pairing("config", pairing)


def _places(positions: Any) -> Any:
    return positions if positions is None or isinstance(positions, str) else _memory.positions(positions)


def _compared(
    operation: str, asked: Any, before: Any, after: Any, tensors: Sequence[str] | None, positions: Any, **words: Any
) -> Any:
    """The answer for two paths, two arrays, or two dicts of arrays. asked: a result of _asked, or None."""
    paths = [isinstance(given, (str, os.PathLike)) for given in (before, after)]
    if paths[0] != paths[1]:
        raise TypeError(f"[{operation}] both must be files, or both arrays or dicts of arrays")
    two = [os.fspath(given) if paths[0] else _named_arrays(given, tensors) for given in (before, after)]
    words |= {"tensors": tensors, "positions": _places(positions)}
    return json.loads(_core._ask(operation, asked, *two, words))


def _named_arrays(given: Any, names: Sequence[str] | None) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        return {"": given}
    return {name: array for name, array in given.items() if names is None or name in names}


def check(
    source: Source | Rope | ModelRope | Ropes, input: Tensors, against: Tensors, *,
    tensors: Sequence[str] | None = None, positions: Positions | str | None = None, layout: str | None = None,
    rope: int | None = None, pairing: Pairing | None = None,
    length: int | None = None, tolerance: float | None = None, same_position_on_every_axis: bool = False,
) -> Check:  # fmt: skip
    """Check that tensors are rotated as a config asks.

    Args:
        source: a config as in rotary.config, a rotary.Rope, or an entry of rotary.config.
        input: the tensors before the rotation: an array, a dict of arrays, or the path of a .safetensors or .npy file.
        against: the tensors after an engine's rotation, with the same names and shapes.
        tensors: the names of the tensors to check. None: q and k where they exist, else all
            that both have, as the command does.
        positions: positions as in rotary.Table, or the command's "100:116". None: 0, 1, 2, ...
        layout: "bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd" or "flat". None: found from the tensors.
        rope: the number of the model's rope, from 0. None: the one that fits.
        pairing: see rotary.config. A rope has its own.
        length: the length of the sequence. None: the largest position + 1.
        tolerance: the largest difference of an element. None: the rounding of the dtype and of float32 angles.
        same_position_on_every_axis: allows positions of one axis for a rope of coordinates.

    Returns:
        A dict with the keys of rotary.tools.Check: equal, max_error, tolerance, diagnosis (None if equal), ... Errors
        are those of rotary.config, SHAPE, DTYPE, TENSOR, POSITION and ROPE.
    """
    return _compared(
        "check", _asked(source), input, against, tensors, positions, layout=layout, rope=rope, pairing=_word(pairing),
        length=length, tolerance=tolerance, same_position_on_every_axis=same_position_on_every_axis,
    )  # fmt: skip


def diagnose(
    before: Tensors, after: Tensors, *, config: Source | Rope | ModelRope | None = None,
    tensors: Sequence[str] | None = None, positions: Positions | str | None = None, layout: str | None = None,
    rope: int | None = None, pairing: Pairing | None = None,
    length: int | None = None, same_position_on_every_axis: bool = False,
) -> Diagnosis:  # fmt: skip
    """Find out what a rotation did to tensors, and what is wrong with it, as `rotary check --details` does.

    Args:
        before: an array, a dict of arrays, or the path of a .safetensors or .npy file.
        after: the rotated tensors, with the same names and shapes.
        config: the source of the rotation that was meant, as in check(). None: it is found from the tensors alone.
        tensors, positions, layout, rope, pairing, length, same_position_on_every_axis: see check().

    Returns:
        A dict with the keys of Diagnosis. Errors are those of check().
    """
    return _compared(
        "diagnose", None if config is None else _asked(config), before, after, tensors, positions, layout=layout,
        rope=rope, pairing=_word(pairing), length=length, same_position_on_every_axis=same_position_on_every_axis,
    )  # fmt: skip


def extend(
    source: Source, length: int, *, scaling: str | None = None, factor: float | None = None,
    trained_length: int | None = None, rope: int | None = None, pairing: Pairing | None = None,
    output: Path | None = None,
) -> Extension:  # fmt: skip
    """Plan a longer context for a model.

    Args:
        source, pairing: see rotary.config.
        length: the number of tokens that the model is to take.
        scaling: "linear", "yarn", "llama3", "longrope", or "default" for none. None: all, of which one is recommended.
        factor: at least 1. None: the published factor, else length / trained_length.
        trained_length: the model's length before any scaling. None: the publisher's, else the config's.
        rope: the number of a rope, from 0, whose part is extended. None: the first rope of a text.
        output: a folder to create with the new config.json of the requested or recommended scaling. An existing
            config.json is not replaced.

    Returns:
        A dict with the keys of Extension: methods, each with its changes and warnings, recommended, why, ...

    Raises:
        rotary.Error: what rotary.config raises, VALUE (a context that needs no extension, a number out of range), ROPE,
            CONFIG_MISSING (no trained length), FORMAT (a GGUF file or params.json), FILE.
    """
    words: dict[str, Any] = {"factor": factor, "trained_length": trained_length, "rope": rope}
    words |= {"pairing": _word(pairing), "output": output and os.fspath(output)}
    words["scaling"] = "default" if scaling == "none" else scaling
    return json.loads(_core._extend(_named(source), length, words))


def convert(
    input: Path, output: Path | None = None, *, to: Pairing, from_: Pairing | None = None, dry_run: bool = False,
    verify: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Convert a checkpoint to the other pairing. Rows are permuted; no value changes.

    Args:
        input: a checkpoint's folder, or a repository in the Hugging Face cache.
        output: a folder that does not exist or is empty; it appears whole or not at all. None only for a dry run.
        to: "half" or "interleaved".
        from_: the pairing of the input. None: as the files' metadata say, else the config.
        dry_run: writes nothing; the result says what would change.
        verify: undoes the change and compares the bytes.

    Returns:
        A dict with all changes (docs/convert.md).

    Raises:
        rotary.Error: PAIRING (the input has that pairing already, or it is unknown), MODEL_TYPE, TENSOR, SHAPE, DTYPE,
            FILE, FORMAT, CHECK, and what rotary.config raises.
    """
    words = {"to": _word(to), "from_": _word(from_), "dry_run": dry_run, "verify": verify}
    if output is None and not dry_run:
        raise TypeError("[convert] output is required (or dry_run=True)")
    return json.loads(_core._convert(os.fspath(input), output and os.fspath(output), words))


def accuracy(
    source: Source | Rope | ModelRope, *, rope: int = 0, positions: Positions | None = None, length: int | None = None,
    tolerance: float = 1e-3,
) -> dict[str, Any]:  # fmt: skip
    """Measure the errors of common ways to compute tables of cos and sin.

    Args:
        source: see check().
        rope: the number of the model's rope, from 0.
        positions: the positions to measure, [tokens], as in rotary.Table. None: a sample of each decade.
        length: the length of the sequence, for scalings that depend on it. None: the largest position + 1, without
            positions the context.
        tolerance: the error that the advice allows for float32, from 1e-6 to 1.

    Returns:
        A dict: ways, each with its errors in every decade of positions; float32_within, advice, and more
            (docs/accuracy.md).

    Raises:
        rotary.Error: what rotary.config raises, ROPE, POSITION (an angle overflows float32).
    """
    words: dict[str, Any] = {"rope": rope, "positions": _places(positions), "length": length, "tolerance": tolerance}
    return json.loads(_core._accuracy(_asked(source), words))


def query_scale(
    source: Source, positions: Positions, layer: int | None = None, *, pairing: Pairing | None = None
) -> Any:
    """The factors by which a model multiplies its queries at each position, in layers with and without rotation.

    Args:
        source, pairing: as in config().
        positions: whole numbers, [tokens] or [batch, tokens], as in rotary.Table.
        layer: the layer of the queries. None: all layers, which must be alike.

    Returns:
        float32 of the positions' shape, rounded once: the factor of all elements of a token's q. It is 1 if the model
        has no factors, and at positions below 0.

    Raises:
        rotary.Error: what config() raises, ROPE (some layers multiply and some do not, and none is named), POSITION
            (floats), VALUE (a model that learns its factors).
    """
    return _memory.view(*_core._query_scale(_named(source), _memory.positions(positions), layer, _word(pairing)))


def rope_parameters(rope: Rope) -> dict[str, Any]:
    """The object rope_parameters of config.json in the form of transformers 5.

    Pairing and direction are not in it: they follow from the model_type. The words for Ntk, NtkFixed, YarnLog and
    ThetaScale are not from transformers (files/include/rotary/config.h).

    Raises:
        rotary.Error: ROPE for a rope that the object cannot express.
    """
    return json.loads(_core._rope_parameters(rope))


def __getattr__(name: str) -> Any:
    if name == "plot":
        import importlib

        return importlib.import_module(".plot", __name__)
    raise AttributeError(f"module 'rotary.tools' has no attribute '{name}'")
