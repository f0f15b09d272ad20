# mypy: disable-error-code="no-any-return"
"""Frozen values: scalings and Rope, with the names and defaults of the C++ library (core/include/rotary/rope.h)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Self, dataclass_transform

from . import _core
from ._memory import flattened
from ._words import Pairing, fail


class _Value:
    """A frozen value that compares, hashes and pickles as its fields."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Makes the annotations of the class its fields."""
        cls.__module__ = "rotary"  # its public module, for help() and pickles
        cls._fields = tuple(name for name, kind in cls.__annotations__.items() if not kind.startswith("ClassVar"))

    def _set(self, *values: object) -> None:
        for name, value in zip(self._fields, values, strict=True):
            object.__setattr__(self, name, value)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: make another one, as by replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._values()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self._values()))
        return f"{type(self).__name__}({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of, self._values()  # checks the value of a pickle like a new one

    @classmethod
    def _of(cls, *values: Any) -> Self:
        return cls(**dict(zip(cls._fields, values, strict=True)))

    def __deepcopy__(self, *memo: object) -> Self:
        return self

    __copy__ = __deepcopy__


class _Signature:
    """The signature of a class of _Record for help() and inspect: its fields by name, with their defaults."""

    def __get__(self, value: object, kind: type[_Record]) -> Any:
        from inspect import Parameter, Signature

        if kind.__init__ is not _Record.__init__:
            return None
        defaults = {name: vars(kind).get(name, Parameter.empty) for name in kind._fields}
        fields = [Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind.__annotations__[name])
                  for name, default in defaults.items()]  # fmt: skip
        return Signature(fields, return_annotation="None")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Record(_Value):
    """A value whose class annotates its fields, with their defaults if they have one.

    Sequences of floats become tuples. Dataclasses would make the import of the package two thirds longer.
    """

    __signature__ = _Signature()

    def __init__(self, **given: Any) -> None:
        kind, values = type(self), []
        for name in self._fields:
            if name not in given and name not in vars(kind):
                raise TypeError(f"{kind.__name__}.__init__() missing the required keyword-only argument '{name}'")
            value = given.pop(name) if name in given else vars(kind)[name]
            is_list = kind.__annotations__[name] == "Sequence[float]"
            values.append(tuple(map(_real, listed(value))) if is_list else value)
        for name in given:
            raise TypeError(f"{kind.__name__}.__init__() got an unexpected keyword argument '{name}'")
        self._set(*values)

    def replace(self, **changes: Any) -> Self:
        """The same value with other fields."""
        return type(self)(**dict(zip(self._fields, self._values())) | changes)


def _real(value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"each must be a number but got {type(value).__name__}")
    return float(value)


def listed(values: Any) -> list[Any]:
    return values.tolist() if hasattr(values, "tolist") else list(values)


class Scaling(_Record):
    """A published method that changes the frequencies. core/include/rotary/rope.h has the formulas.

    i is the index of a pair, r the exponent_dim of the rope, w = base^(-2i/r) the unscaled frequency. The values are
    checked when a rope takes the scaling (rotary.Error SCALING).
    """

    _name: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """The name of the method, such as "yarn"."""
        return self._name


class Unscaled(Scaling):
    """The frequencies are w. RoFormer, arXiv:2104.09864."""

    _name = "default"


class Linear(Scaling):
    """The frequencies become w / factor. Position interpolation, arXiv:2306.15595."""

    _name = "linear"
    factor: float = 1.0


class Ntk(Scaling):
    """The base becomes base * factor^(r/(r-2)) at any length. bloc97; Hunyuan's "alpha"."""

    _name = "ntk"
    factor: float = 1.0


class NtkFixed(Scaling):
    """The frequencies become (base factor)^(-2i/r) factor^(-2/r), or with mixed_b the mixed form of kexue.fm/9706.

    It is rope_type "ntk" of vLLM.
    """

    _name = "ntk_fixed"
    factor: float = 1.0
    mixed_b: float | None = None


class Dynamic(Scaling):
    """The base grows with the sequence's length beyond trained_length. Hugging Face."""

    _name = "dynamic"
    factor: float = 1.0
    trained_length: int = 0


class Yarn(Scaling):
    """NTK by parts, with an attention factor. YaRN, arXiv:2309.00071.

    Args:
        factor: stretches long wavelengths.
        trained_length: the length that the model was trained on before it was scaled, in tokens.
        beta_fast: a pair that turns more often than this over trained_length keeps its frequency.
        beta_slow: a pair that turns less often than this is stretched by the whole factor.
        truncate: rounds the bounds between kept and stretched pairs outwards to whole pairs; gpt-oss: False.
        attention_factor: multiplies cos and sin. None: M(mscale) / M(mscale_all_dim) if both are given and not 0,
            else M(1), with M(m) = magnitude * m * ln(factor) + 1.
        mscale, mscale_all_dim, magnitude: see attention_factor. The magnitude of telechat3 is 0.07.
        mscale_ratio: always the ratio, with 1 and 0 for what is not given, as in DeepSeek's own code.
        extrapolation_factor: the weight of the unscaled frequencies, in vLLM.
        attn_factor: multiplies the attention factor, in vLLM and ggml.
    """

    _name = "yarn"
    factor: float = 1.0
    trained_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    magnitude: float = 0.1
    mscale_ratio: bool = False
    extrapolation_factor: float = 1.0
    attn_factor: float = 1.0


class LongRope(Scaling):
    """The frequencies become w / long_factor[i] for lengths above trained_length, else w / short_factor[i].

    LongRoPE, arXiv:2402.13753.

    Args:
        short_factor, long_factor: one number for each pair.
        trained_length: the length that the model was trained on before it was scaled, in tokens.
        factor: above 1, it makes the attention factor sqrt(1 + ln(factor) / ln(trained_length)), else 1.
        attention_factor: replaces that attention factor.
        short_mscale, long_mscale: replace it up to trained_length, and beyond it (Phi-3.5-MoE).
    """

    _name = "longrope"
    short_factor: Sequence[float] = ()
    long_factor: Sequence[float] = ()
    trained_length: int = 0
    factor: float = 1.0
    attention_factor: float | None = None
    short_mscale: float | None = None
    long_mscale: float | None = None


class Llama3(Scaling):
    """Wavelengths above trained_length / low are stretched by factor, below trained_length / high they are kept.

    Between the two they are blended. llama-models, Llama 3.1.
    """

    _name = "llama3"
    factor: float = 1.0
    trained_length: int = 0
    low: float = 1.0
    high: float = 4.0


class Proportional(Scaling):
    """The first floor(fraction * r / 2) pairs rotate, by w / factor. p-RoPE, arXiv:2410.06205; Gemma 4."""

    _name = "proportional"
    fraction: float = 1.0
    factor: float = 1.0


class YarnLog(Scaling):
    """YaRN with a blend of the logarithms and without an attention factor. Grok in SGLang, models/grok.py.

    Args: see Yarn.
    """

    _name = "yarn_log"
    factor: float = 1.0
    trained_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    extrapolation_factor: float = 1.0


class ThetaScale(Scaling):
    """The base becomes base^(ln(L factor / 2 pi) / ln(L / 2 pi)) with L = trained_length. SGLang's models/grok.py."""

    _name = "theta_scale"
    factor: float = 1.0
    trained_length: int = 0


_scalings: dict[str, Any] = {kind._name: kind for kind in Scaling.__subclasses__()}


class XPos(_Record):
    """The amplitude of xPos, arXiv:2212.10554.

    At position p, cos and sin of pair i of n are multiplied by zeta^((p - center) / scale), where zeta is
    (2i + 0.4 r) / (1.4 r) and r = 2n; for keys (reciprocal) by its inverse.

    Args:
        scale: above 0, 512 in the published models. 0: no amplitude.
        center: the position whose amplitude is 1, one for queries and for the keys of a cache.
        reciprocal: True for keys.
    """

    scale: float = 0.0
    center: float = 0.0
    reciprocal: bool = False


def amplitude(xpos: XPos | None) -> XPos:
    if not isinstance(xpos, XPos | None):
        raise TypeError(f"xpos must be a rotary.XPos but got {type(xpos).__name__}")
    return xpos or XPos()


def shaped(operation: str, inv_freq: Any, head_rows: int, summed_axes: int) -> tuple[Any, int, int]:
    """inv_freq in one dimension, head_rows and summed_axes. Given as 1 and 0, the two are read from the dimensions."""
    inv_freq, shape = flattened(operation, inv_freq)
    found = head_rows, summed_axes = operator.index(head_rows), operator.index(summed_axes)
    if head_rows < 1 or summed_axes < 0:
        rule = "head_rows must be at least 1, and summed_axes 0, but got"
        fail("SHAPE", operation, f"{rule} {head_rows} and {summed_axes}")
    if len(shape) > 1:
        found = shape[:2] if len(shape) == 3 else (1, shape[0]) if head_rows == 1 else (shape[0], 0)
    if head_rows not in (1, found[0]) or summed_axes not in (0, found[1]):
        rule = "inv_freq must be [pairs], [axes, pairs], [rows, axes, pairs] or, with head_rows, [rows, pairs]"
        fail("SHAPE", operation, f"{rule}, but got {list(shape)}, head_rows {head_rows} and summed_axes {summed_axes}")
    return inv_freq, *found


def phases(operation: str, phase: Any, head_rows: int) -> tuple[Any, int]:
    """phase in one dimension, and how often one row of frequencies must be repeated for its rows."""
    phase, shape = flattened(operation, phase)
    return phase, shape[0] if head_rows == 1 and len(shape) == 2 else 1


class Rope(_Record):
    """A rope, as a model card describes it.

    Args:
        head_dim: elements of one head.
        base: above 1; "rope_theta".
        pairing: the two elements that rotate together, with n = rotary_dim / 2: "half" (x[i], x[i + n]), "interleaved"
            (x[2i], x[2i + 1]), or "interleaved_to_half", which reads as interleaved and writes as half (DeepSeek-V3 in
            Hugging Face). No default.
        rotary_dim: elements of the rotated block, even. 0: head_dim.
        scaling: rotary.Yarn(...) or another; by default Unscaled().
        axis: the coordinate of a position by which each pair rotates. Empty: the first for all.
        index: i in base^(-2i/r), for each pair. Empty: 0, 1, 2, ...
        exponent_dim: r in base^(-2i/r). 0: rotary_dim.
        clockwise: True rotates by minus the angle (nanochat).
        inv_freq: radians per position of each pair in place of those from base and scaling: [pairs], or as in
            rotary.Frequencies.
        multiplier: a number for each pair that multiplies its frequency.
        attention_factor: multiplies cos and sin, in place of the scaling's.
        head_rows, summed_axes, phase, xpos: see rotary.Frequencies.

    Raises:
        rotary.Error: PAIRING (not given or unknown), SHAPE, SCALING.
    """

    head_dim: int
    base: float
    pairing: Pairing
    rotary_dim: int
    scaling: Scaling
    axis: tuple[int, ...]
    index: tuple[int, ...]
    exponent_dim: int
    clockwise: bool
    inv_freq: tuple[float, ...]
    multiplier: tuple[float, ...]
    attention_factor: float | None
    head_rows: int
    summed_axes: int
    phase: tuple[float, ...]
    xpos: XPos

    def __init__(
        self, *, head_dim: int, base: float = 10000.0, pairing: Pairing, rotary_dim: int = 0,
        scaling: Scaling | None = None, axis: Sequence[int] = (), index: Sequence[int] = (), exponent_dim: int = 0,
        clockwise: bool = False, inv_freq: Any = (), multiplier: Iterable[float] = (),
        attention_factor: float | None = None, head_rows: int = 1, summed_axes: int = 0, phase: Iterable[float] = (),
        xpos: XPos | None = None,
    ) -> None:  # fmt: skip
        inv_freq, head_rows, summed_axes = shaped("Rope", inv_freq, head_rows, summed_axes)
        phase, rows = phases("Rope", phase, head_rows)
        self._set(
            *(head_dim, base, pairing, rotary_dim or head_dim, Unscaled() if scaling is None else scaling),
            *(listed(axis), listed(index), exponent_dim, clockwise),
            *(listed(inv_freq), listed(multiplier), attention_factor, head_rows, summed_axes),
            *(() if rows > 1 else listed(phase), amplitude(xpos)),
        )
        object.__setattr__(self, "_handle", _core._rope(self))
        words = _read(_core._check_rope(self))
        self._set(*(words[name] for name in self._fields))
        if rows > 1:  # all heads rotate by the one row
            row = tuple(memoryview(_core._frequencies(self, None)[1]).cast("d"))
            again = self.replace(inv_freq=row * rows, multiplier=(), head_rows=rows, phase=phase)
            vars(self).update(vars(again))

    def __repr__(self) -> str:
        plain = {"scaling": Unscaled(), "axis": (), "index": (), "exponent_dim": 0, "clockwise": False}
        plain |= {"inv_freq": (), "multiplier": (), "attention_factor": None, "rotary_dim": self.head_dim}
        plain |= {"head_rows": 1, "summed_axes": 0, "phase": (), "xpos": XPos()}
        shown = [(name, value) for name, value in zip(self._fields, self._values()) if plain.get(name, ...) != value]
        return f"Rope({', '.join(f'{name}={value!r}' for name, value in shown)})"


def loaded(text: str) -> Any:
    import json  # here, so that an import of the package does without it

    return json.loads(text)


def _read(state: str | dict[str, Any]) -> dict[str, Any]:
    """The fields of a value from _core, with tuples for lists, and a rope's scaling as a value."""
    fields = loaded(state) if isinstance(state, str) else state
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}
    if "scaling" in fields:  # the fields of a rope
        scaling = _read(fields["scaling"])
        fields["scaling"] = _scalings[scaling.pop("name")](**scaling)
        fields["xpos"] = XPos(**fields["xpos"])
    return fields


def _rope(state: str | dict[str, Any]) -> Rope:
    return Rope(**_read(state))


def sectioned_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of consecutive sections, such as Qwen2-VL's ttt hhh www. sections: the number of pairs of each axis."""
    return tuple(_core._make("sectioned_axes", {"sections": sections}))


def interleaved_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of interleaved sections, such as Qwen3-VL's thw thw ... ttt. sections: as in sectioned_axes."""
    return tuple(_core._make("interleaved_axes", {"sections": sections}))


def ernie_axes(height_width_time: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of Ernie 4.5 VL: hwhw... ttt. height_width_time: the number of pairs of each axis."""
    return tuple(_core._make("ernie_axes", {"height_width_time": height_width_time}))


class Axis(_Record):
    """An axis of rotary.axial.

    Args:
        width: the number of elements of the head, even, that it rotates; it may be 0.
        base: the base of its frequencies.
        stretch: multiplies its wavelengths.
        scaling: scales its own frequencies. All axes must have the same attention factor.
    """

    width: int
    base: float = 10000.0
    stretch: float = 1.0
    scaling: Scaling = Unscaled()


def axial(
    *, head_dim: int, axes: int | Iterable[Axis | int | Sequence[float]], base: float = 10000.0, pairing: Pairing
) -> Rope:
    """A vision rope of several axes, each with its own run of frequencies.

    Args:
        axes: the number of axes, which get equal shares of the head; or each of them, as an Axis, a width, or (width,
            base, stretch). The first pairs use axis 0, and so on; elements beyond the last axis do not rotate.
        base: the base of axes that do not have their own.

    Raises:
        rotary.Error: PAIRING, SHAPE, SCALING; LENGTH for a scaling that needs a length.
    """
    if not isinstance(axes, Iterable):
        return _rope(_core._make("axial", {"head_dim": head_dim, "axes": axes, "base": base, "pairing": pairing}))
    each = [one if isinstance(one, Axis) else _axis(one, base) for one in axes]
    return _rope(_core._make("axial_widths", {"head_dim": head_dim, "axes": each, "pairing": pairing}))


def _axis(given: Any, base: float) -> Axis:
    """The Axis of a width, or of (width, base, stretch)."""
    words = list(given) if isinstance(given, Iterable) else [given]
    if not 1 <= len(words) <= 3:
        raise TypeError(f"an axis must be a rotary.Axis, a width or (width, base, stretch) but got {given!r}")
    return Axis(**{"base": base} | dict(zip(("width", "base", "stretch"), words)))


def rope_parameters(rope: Rope) -> dict[str, Any]:
    """The object rope_parameters of config.json in the form of transformers 5.

    Pairing and direction are not in it: they follow from the model_type. The words for Ntk, NtkFixed, YarnLog and
    ThetaScale are not from transformers (files/include/rotary/config.h).

    Raises:
        rotary.Error: ROPE for a rope that the object cannot express.
    """
    return loaded(_core._rope_parameters(rope))
