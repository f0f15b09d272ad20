"""The ropes of a model, from its config."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, overload

from . import _core
from ._memory import flattened
from ._rope import Rope, _read, _rope
from ._types import Report, Source
from ._values import Record
from ._words import Pairing, check_pairing, fail
from .scalings import Scaling


class ModelRope(Record, public="rotary.tools", repr=False):
    """One rope of a model, and the layers that use it.

    Attributes:
        rope: the rotary.Rope; its rotary_dim is always filled in.
        part: the dotted path of the sub-config: "", "text_config", "vision_config".
        layers: indices of the layers that use it.
        layers_without_rope: indices of the part's layers that have no rope.
        heads, kv_heads: the numbers of heads of q and of k.
        first: the element of the head where the rotated block begins: first= of the functions that rotate.
        context: max_position_embeddings; 0 if it is not in the config.
        notes: sentences on how the config was read.
        origins: the source of each value, such as "base": ("given", "rope_theta"). Others are ("default", a model_type)
            and ("derived", a formula).
        origin_kinds: the same in finer words: "given", "chosen" (by the caller), "weights" (of a checkpoint),
            "default", "method_default", "published", "derived".
        axis_names: the names of a position's coordinates; empty if there is one, or the config does not name them.
        coordinates: True if positions are coordinates, as of image patches, and not places of tokens in a text.
    """

    rope: Rope
    part: str
    layers: tuple[int, ...]
    layers_without_rope: tuple[int, ...]
    heads: int
    kv_heads: int
    first: int
    context: int
    notes: tuple[str, ...]
    _origins: tuple[tuple[str, tuple[str, str, str]], ...]
    axis_names: tuple[str, ...]
    coordinates: bool

    @property
    def origins(self) -> dict[str, tuple[str, str]]:
        return {name: (word, key) for name, (word, key, _) in self._origins}

    @property
    def origin_kinds(self) -> dict[str, str]:
        return {name: kind for name, (_, _, kind) in self._origins}

    @property
    def head_dim(self) -> int:
        return self.rope.head_dim

    @property
    def rotary_dim(self) -> int:
        return self.rope.rotary_dim

    @property
    def base(self) -> float:
        return self.rope.base

    @property
    def pairing(self) -> Pairing:
        return self.rope.pairing

    @property
    def scaling(self) -> Scaling:
        return self.rope.scaling

    def _own(self, positions: Any, shape: Any = None) -> Any:
        """The positions on this rope's own axes, if they have all of its part in front. shape: theirs, if known."""
        every = len(self.axis_names)
        if self._axes >= every or isinstance(positions, (int, range)):
            return positions
        if shape is None:
            shape = positions.shape if hasattr(positions, "shape") else flattened("positions", positions)[1]
        return self._first(positions) if len(shape) > 1 and shape[0] == every else positions

    @property
    def _axes(self) -> int:
        """The number of coordinates that this rope reads, the first ones of its part."""
        return self.rope.summed_axes or max(self.rope.axis, default=0) + 1

    def _first(self, on_axes: Any) -> Any:
        return on_axes[: self._axes] if self._axes > 1 else on_axes[0]

    def _summary(self) -> str:
        heads = f"{self.heads}/{self.kv_heads}" if self.kv_heads != self.heads else f"{self.heads}"
        rope = self.rope
        block = "" if rope.rotary_dim == rope.head_dim else f", {rope.rotary_dim} of them turn"
        speeds = "inv_freq given" if rope.inv_freq else f"base {rope.base:g}"
        scaling = "" if rope.scaling.name == "default" else f", {rope.scaling.name}"
        part = f"{self.part}: " if self.part else ""
        layers = f"{len(self.layers)} layer{'' if len(self.layers) == 1 else 's'}"
        return f"{part}{layers}, {heads} heads of {rope.head_dim}{block}, {rope.pairing}, {speeds}{scaling}"

    def __repr__(self) -> str:
        return f"ModelRope({self._summary()})"


class Ropes(Record, Sequence[ModelRope], public="rotary.tools", repr=False):
    """The ropes of a model: a sequence of ModelRope.

    Attributes:
        model_type: the model_type of the config.
        notes: sentences on how the config was read.
        noted: the part, kind and text of each note: ("vision_config", "unread", "..."). The kinds are those of NoteKind
            in rotary/config.h.
    """

    model_type: str
    notes: tuple[str, ...]
    noted: tuple[tuple[str, str, str], ...]
    _ropes: tuple[ModelRope, ...]

    def __len__(self) -> int:
        return len(self._ropes)

    @overload
    def __getitem__(self, index: int) -> ModelRope: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[ModelRope, ...]: ...

    def __getitem__(self, index: int | slice) -> ModelRope | tuple[ModelRope, ...]:
        return self._ropes[index]

    def for_layer(self, layer: int, part: str | None = None) -> ModelRope:
        """The first rope that a layer uses. part: the path of its sub-config; None: the first rope's.

        Raises:
            rotary.Error: ROPE for a layer without a rope, or that the model does not have.
        """
        part = part if part is not None or not self._ropes else self._ropes[0].part
        for rope in self._ropes:
            if rope.part == part and (layer in rope.layers or not rope.layers):
                return rope
        there = sorted(layer for rope in self._ropes if rope.part == part for layer in rope.layers)
        rule = "a part must have ropes"
        if there:
            rule = f"layer must be one that has a rope, from {there[0]} to {there[-1]},"
        fail("ROPE", "for_layer", f"{rule} but got {layer!r} of part {part!r}")

    def __repr__(self) -> str:
        ropes = "; ".join(rope._summary() for rope in self._ropes) or "no rope"
        return f"Ropes({self.model_type or 'model_type not stated'}: {ropes})"


def _plain(value: Any) -> Any:
    """A value that JSON cannot hold, as one that it can: a number of numpy or torch, or a word such as torch.dtype."""
    return value.item() if hasattr(value, "item") else str(value)


def is_config(source: object) -> bool:
    """Whether config() may read the source."""
    if isinstance(source, str | bytes | os.PathLike | Mapping):
        return True
    return hasattr(source, "to_dict") or hasattr(source, "config")


def _named(source: Any) -> tuple[str, str]:
    """The source as _core reads it: ("text", JSON) or ("path", a path)."""
    if isinstance(source, bytes):
        source = source.decode("utf-8")
    if isinstance(source, str):
        return ("text" if source.lstrip().startswith("{") else "path"), source
    if isinstance(source, os.PathLike):
        return "path", os.fspath(source)
    if hasattr(source, "config") and hasattr(source.config, "to_dict"):  # a model
        source = source.config
    if hasattr(source, "to_dict"):  # transformers.PretrainedConfig
        source = source.to_dict()
    if isinstance(source, Mapping):
        try:
            return "text", json.dumps(dict(source), default=_plain)
        except (RuntimeError, ValueError) as error:  # nested too deep or in itself, or arrays
            fail("JSON", "config", f"a dict must be one that JSON can hold but got {error}")
    kind = type(source).__name__
    raise TypeError(f"config must be a path, a dict, a PretrainedConfig or a str of JSON but got {kind}")


def _model_rope(state: dict[str, Any]) -> ModelRope:
    fields = _read(state)
    fields["rope"] = _rope(fields["rope"])
    fields["_origins"] = tuple((name, tuple(origin)) for name, origin in fields["_origins"])
    return ModelRope(**fields)


def config(source: Source, *, pairing: Pairing | None = None, weights: str | os.PathLike[str] | None = None) -> Ropes:
    """Read the ropes of a model from its config: a sequence of rotary.tools.ModelRope, with model_type and notes.

    Args:
        source: a path (config.json of Hugging Face, params.json of Mistral and Meta, their folder, or a GGUF file), a
            repository in the Hugging Face cache ("Qwen/Qwen3-8B"), a dict, a PretrainedConfig, or a str of JSON.
        pairing: for an unknown model_type; it overrides that of a known one.
        weights: the checkpoint with learned frequencies: model.safetensors, its index.json, or their folder.

    Raises:
        rotary.Error: FILE, JSON, FORMAT, CONFIG_KEY (a rope key that nothing reads), CONFIG_VALUE, CONFIG_MISSING,
            MODEL_TYPE (unknown, and no pairing given), TENSOR, ROPE.
    """
    path = None if weights is None else os.fspath(weights)
    pairing = None if pairing is None else check_pairing("config", pairing)
    fields = _read(_core._model("config", _named(source), pairing, path))
    fields["noted"] = tuple(map(tuple, fields["noted"]))
    return Ropes(**{**fields, "_ropes": tuple(map(_model_rope, fields["_ropes"]))})


def use_models(path: str | os.PathLike[str] | None = None) -> str:
    """Read models by a newer sheet, or with rows of one's own (docs/models.md), and return its version, "2026.11.2".

    Without a path it is the package's sheet, or the one in ROTARY_MODELS. After a rotary.Error (FILE, JSON, FORMAT) the
    earlier sheet stays in use.
    """
    version: str = _core._use_models(None if path is None else os.fspath(path))
    return version


# ---- rotary.patch: the tables of a transformers model beside its config ----


def patch(model: Any, *, tables: Literal["model", "exact"] = "model") -> Report:
    """Compare every table of a Hugging Face transformers model with its config, and optionally make it exact.

    Each module with frequencies is run at positions up to 4093, and its cos and sin must be those of a rope that
    rotary.config(model.config) reads for that part of the model, within the error of float32 angles.

    Args:
        model: a torch.nn.Module with a config, as transformers' from_pretrained returns it.
        tables: "model" changes nothing. "exact" makes the rotary modules return rotary's exact rows, in their own
            dtype, device and form, whatever is in their buffers.

    Returns:
        A report that can be printed and undone by undo(); as a context manager it undoes itself.

    Raises:
        rotary.Error: nothing was changed. ROPE (a table differs from the config's or cannot be compared, or the
            model has no table), TORCH (a table that "exact" cannot replace), DEVICE (a table without memory), VALUE,
            and the codes of rotary.config.
    """
    from ._torch import patching

    return patching.patch(model, tables)
