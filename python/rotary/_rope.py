"""rotary.Rope, with the names and defaults of the C++ library (core/include/rotary/rope.h)."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, fields
from functools import partial
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from . import _core
from ._values import Record, listed, phases, shaped
from ._words import Pairing, check_pairing, fail
from .scalings import Scaling, Unscaled, XPos, _scalings


class RopeWords(TypedDict, total=False):
    head_dim: Required[int]
    pairing: Required[Pairing]
    base: float
    theta: float
    rope_theta: float
    rotary_dim: int
    partial_rotary_factor: float
    scaling: Scaling | Mapping[str, Any] | None
    axis: Sequence[int]
    index: Sequence[int]
    exponent_dim: int
    clockwise: bool
    inv_freq: Any
    multiplier: Iterable[float]
    attention_factor: float | None
    head_rows: int
    summed_axes: int
    phase: Any
    xpos: XPos | None


class Rope(Record, public="rotary", repr=False):
    """A rope, as a model card describes it.

    Args:
        head_dim: elements of one head.
        base: above 1. Or theta= or rope_theta=.
        pairing: the two elements that rotate together, with n = rotary_dim / 2: "half" (x[i], x[i + n]; "neox",
            "rotate_half"), "interleaved" (x[2i], x[2i + 1]; "gptj", "norm"), or "interleaved_to_half", which reads as
            interleaved and writes as half (DeepSeek-V3 in Hugging Face). No default.
        scaling: one of rotary.scalings, such as Yarn(...), or a config's rope_scaling or rope_parameters, as
            {"rope_type": "yarn", "factor": 4, ...}. None: Unscaled().
        rotary_dim: elements of the rotated block, even. 0: head_dim. Or partial_rotary_factor=, their part of it.

    Models of pictures and the methods of some papers need the others:
        axis: the coordinate of a position by which each pair rotates. Empty: the first for all.
        index: i in base^(-2i/r), for each pair. Empty: 0, 1, 2, ...
        exponent_dim: r in base^(-2i/r). 0: rotary_dim.
        clockwise: True rotates by minus the angle (nanochat).
        inv_freq: radians per position of each pair in place of those from base and scaling: [pairs], or as in
            rotary.makers.Frequencies.
        multiplier: a number for each pair that multiplies its frequency.
        attention_factor: multiplies cos and sin, in place of the scaling's.
        head_rows, summed_axes, phase, xpos: see rotary.makers.Frequencies.

    Raises:
        rotary.Error: PAIRING (not given or unknown), SHAPE, SCALING.
    """

    head_dim: int
    base: float = 10000.0
    pairing: Pairing
    rotary_dim: int = 0
    scaling: Scaling = Unscaled()
    axis: tuple[int, ...] = ()
    index: tuple[int, ...] = ()
    exponent_dim: int = 0
    clockwise: bool = False
    inv_freq: tuple[float, ...] = ()
    multiplier: tuple[float, ...] = ()
    attention_factor: float | None = None
    head_rows: int = 1
    summed_axes: int = 0
    phase: tuple[float, ...] = ()
    xpos: XPos = XPos()
    theta: InitVar[float | None] = None
    rope_theta: InitVar[float | None] = None
    partial_rotary_factor: InitVar[float | None] = None

    if TYPE_CHECKING:

        def __init__(self, **words: Unpack[RopeWords]) -> None: ...

    def __post_init__(self, *others: Any) -> None:
        given: dict[str, Any] = {**vars(self)}
        theta, rope_theta, part = others
        scaling = {**given["scaling"]} if isinstance(given["scaling"], Mapping) else None
        own = scaling or {}  # a model card's words stand there or here
        bases, own_part = (theta, rope_theta, own.pop("rope_theta", None)), own.pop("partial_rotary_factor", None)
        given["pairing"] = check_pairing("Rope", self.pairing)
        given["base"] = _the_one("base, theta or rope_theta", self.base, 10000.0, *bases)
        part = own_part if part is None else part
        of_part = None if part is None else int(self.head_dim * part)
        rotary_dim = _the_one("rotary_dim or partial_rotary_factor", self.rotary_dim, 0, of_part)
        given["rotary_dim"] = rotary_dim or self.head_dim
        if scaling is not None:
            given["scaling"] = _read_scaling(scaling, given["rotary_dim"], given["base"])
        given |= shaped("Rope", given)
        phase, rows = phases("Rope", given)
        given |= {name: listed(given[name]) for name in ("axis", "index", "inv_freq", "multiplier")}
        given |= {"phase": () if rows > 1 else listed(phase), "xpos": XPos() if self.xpos is None else self.xpos}
        given["scaling"] = given["scaling"] or Unscaled()
        vars(self).update(given)
        handle, state = _core._rope(self)
        vars(self).update(_read(state), _handle=handle)
        if rows > 1:  # all heads rotate by the one row
            row = tuple(memoryview(_core._frequencies(self, None)[1]).cast("d"))
            again = self.replace(inv_freq=row * rows, multiplier=(), head_rows=rows, phase=phase)
            vars(self).update(vars(again))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(Rope, **{field.name: getattr(self, field.name) for field in fields(self)}), ()

    def __repr__(self) -> str:
        plain = {"base": None, "rotary_dim": self.head_dim}
        values = [(one.name, getattr(self, one.name), plain.get(one.name, one.default)) for one in fields(self)]
        return f"Rope({', '.join(f'{name}={value!r}' for name, value, usual in values if value != usual)})"


# help() shows the words once, with the class.
Rope.__signature__, Rope.__init__.__signature__ = map(inspect.signature, (Rope, object.__init__))  # type: ignore


def _the_one(names: str, given: Any, default: Any, *others: Any) -> Any:
    """The value that was given by one of several names."""
    values = {*([given] if given != default else []), *(one for one in others if one is not None)}
    if len(values) > 1:
        fail("VALUE", "Rope", f"{names} must be one value but got {' and '.join(map(str, sorted(values)))}")
    return values.pop() if values else default


def _read_scaling(words: dict[str, Any], rotary_dim: int, base: float) -> Scaling:
    """The scaling that a config's rope_scaling or rope_parameters describes, read as a Llama's."""
    config = {"model_type": "llama", "hidden_size": rotary_dim, "num_attention_heads": 1, "num_hidden_layers": 1}
    config |= {"rope_theta": base, "rope_scaling": words}
    if "original_max_position_embeddings" in words:
        config["max_position_embeddings"] = words["original_max_position_embeddings"]
    model = json.loads(_core._model("Rope", ("text", json.dumps(config)), None, None))
    scaling = _read(model["_ropes"][0]["rope"])["scaling"]
    needed = [["original_max_position_embeddings"]] if hasattr(scaling, "trained_length") else []
    needed += [["factor", "attention_factor"]] if scaling.name == "longrope" else []
    for names in needed:  # a whole config has them, or what they follow from
        if not any(name in words for name in names):
            rule = f"a scaling of type {scaling.name} must have {' or '.join(names)}, or be one of rotary.scalings,"
            fail("CONFIG_MISSING", "Rope", f"{rule} but got {', '.join(words)}")
    return scaling


def _read(state: str | dict[str, Any]) -> dict[str, Any]:
    """The fields of a value from _core, with tuples for lists, and a rope's scaling as a value."""
    values = json.loads(state) if isinstance(state, str) else state
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    if "scaling" in values:  # the fields of a rope
        scaling = _read(values["scaling"])
        values["scaling"] = _scalings[scaling.pop("name")](**scaling)
        values["xpos"] = XPos(**values["xpos"])
    return values


def _rope(state: str | dict[str, Any]) -> Rope:
    return Rope(**_read(state))
