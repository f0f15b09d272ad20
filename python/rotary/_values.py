"""Rope and the scalings: frozen values with the names and defaults of the C++ library."""

from __future__ import annotations

from . import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, ClassVar, Literal

    Pairing = Literal["half", "interleaved", "interleaved_to_half"]
    # b batch, t tokens, h heads, d head_dim.
    Layout = Literal[
        "bthd", "bhtd", "tbhd", "thbd", "hbtd", "htbd", "btd", "tbd", "thd", "htd", "bhd", "hbd", "bd", "td", "hd"
    ]


class _Value:
    """Frozen; compares, hashes and pickles as its fields."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def _set(self, *values: object) -> None:
        for name, value in zip(self._fields, values):
            object.__setattr__(self, name, value)

    def _values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: make another one, as by replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def replace(self, **changes: Any) -> Any:
        """The same value with other fields."""
        return type(self)(**{**dict(zip(self._fields, self._values())), **changes})

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
        return _make, (type(self), dict(zip(self._fields, self._values())))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


def _make(kind: Any, fields: dict[str, Any]) -> Any:
    return kind(**fields)


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    listed = values.tolist() if hasattr(values, "tolist") else values
    return tuple(float(value) for value in listed)


def _integers(values: Iterable[int]) -> tuple[int, ...]:
    listed = values.tolist() if hasattr(values, "tolist") else values
    return tuple(int(value) for value in listed)


class Scaling(_Value):
    """A published method that changes the frequencies. The formulas: include/rotary/rope.h.

    i is the index of a pair, r the exponent_dim of the rope, w = base^(-2i/r) the unscaled frequency; every value is
    checked where a rope takes the scaling (rotary.Error SCALING).
    """

    __slots__ = ()
    _name: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """The method's name, as "yarn"."""
        return self._name


class Unscaled(Scaling):
    """w. RoFormer, arXiv:2104.09864."""

    __slots__ = ()
    _name = "default"


class Linear(Scaling):
    """w / factor. Position interpolation, arXiv:2306.15595."""

    __slots__ = _fields = ("factor",)
    _name = "linear"
    factor: float

    def __init__(self, *, factor: float = 1.0) -> None:
        self._set(factor)


class Ntk(Scaling):
    """The base becomes base * factor^(r/(r-2)) at any length. bloc97; Hunyuan's "alpha"."""

    __slots__ = _fields = ("factor",)
    _name = "ntk"
    factor: float

    def __init__(self, *, factor: float = 1.0) -> None:
        self._set(factor)


class NtkFixed(Scaling):
    """(base factor)^(-2i/r) factor^(-2/r), or with mixed_b the mixed form. kexue.fm/9706; vLLM's rope_type "ntk"."""

    __slots__ = _fields = ("factor", "mixed_b")
    _name = "ntk_fixed"
    factor: float
    mixed_b: float | None

    def __init__(self, *, factor: float = 1.0, mixed_b: float | None = None) -> None:
        self._set(factor, mixed_b)


class Dynamic(Scaling):
    """The base grows with the length in play beyond trained_length. Hugging Face."""

    __slots__ = _fields = ("factor", "trained_length")
    _name = "dynamic"
    factor: float
    trained_length: int

    def __init__(self, *, factor: float = 1.0, trained_length: int = 0) -> None:
        self._set(factor, trained_length)


class Yarn(Scaling):
    """NTK by parts, with a magnitude. YaRN, arXiv:2309.00071.

    Args:
        factor: by which long wavelengths are stretched.
        trained_length: tokens that the model was trained on before.
        beta_fast: turns over trained_length above which a pair is kept.
        beta_slow: turns below which it is stretched whole.
        truncate: floor and ceil of the correction range; gpt-oss: False.
        attention_factor: multiplies cos and sin. None: M(mscale) / M(mscale_all_dim) where both are given and not 0,
            else M(1), with M(m) = magnitude * m * ln(factor) + 1.
        mscale: see attention_factor.
        mscale_all_dim: see attention_factor.
        magnitude: see attention_factor; telechat3: 0.07.
        mscale_ratio: DeepSeek's own code: always the ratio, with defaults 1 and 0.
        extrapolation_factor: vLLM: the weight of the unscaled frequencies.
        attn_factor: vLLM, ggml: multiplies the attention factor.
    """

    __slots__ = _fields = (
        "factor",
        "trained_length",
        "beta_fast",
        "beta_slow",
        "truncate",
        "attention_factor",
        "mscale",
        "mscale_all_dim",
        "magnitude",
        "mscale_ratio",
        "extrapolation_factor",
        "attn_factor",
    )
    _name = "yarn"
    factor: float
    trained_length: int
    beta_fast: float
    beta_slow: float
    truncate: bool
    attention_factor: float | None
    mscale: float | None
    mscale_all_dim: float | None
    magnitude: float
    mscale_ratio: bool
    extrapolation_factor: float
    attn_factor: float

    def __init__(
        self,
        *,
        factor: float = 1.0,
        trained_length: int = 0,
        beta_fast: float = 32.0,
        beta_slow: float = 1.0,
        truncate: bool = True,
        attention_factor: float | None = None,
        mscale: float | None = None,
        mscale_all_dim: float | None = None,
        magnitude: float = 0.1,
        mscale_ratio: bool = False,
        extrapolation_factor: float = 1.0,
        attn_factor: float = 1.0,
    ) -> None:
        self._set(
            factor,
            trained_length,
            beta_fast,
            beta_slow,
            truncate,
            attention_factor,
            mscale,
            mscale_all_dim,
            magnitude,
            mscale_ratio,
            extrapolation_factor,
            attn_factor,
        )


class LongRope(Scaling):
    """w / long_factor[i] when the length in play is above trained_length, else w / short_factor[i]. arXiv:2402.13753.

    Args:
        short_factor: one for each pair.
        long_factor: one for each pair.
        trained_length: tokens that the model was trained on before.
        factor: the attention factor is sqrt(1 + ln(factor) / ln(trained_length)) when it is above 1, else 1.
        attention_factor: instead of that.
        short_mscale: instead of it up to trained_length (Phi-3.5-MoE).
        long_mscale: instead of it beyond.
    """

    __slots__ = _fields = (
        "short_factor",
        "long_factor",
        "trained_length",
        "factor",
        "attention_factor",
        "short_mscale",
        "long_mscale",
    )
    _name = "longrope"
    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    trained_length: int
    factor: float
    attention_factor: float | None
    short_mscale: float | None
    long_mscale: float | None

    def __init__(
        self,
        *,
        short_factor: Sequence[float] = (),
        long_factor: Sequence[float] = (),
        trained_length: int = 0,
        factor: float = 1.0,
        attention_factor: float | None = None,
        short_mscale: float | None = None,
        long_mscale: float | None = None,
    ) -> None:
        short, long = _floats(short_factor), _floats(long_factor)
        self._set(short, long, trained_length, factor, attention_factor, short_mscale, long_mscale)


class Llama3(Scaling):
    """Wavelengths above trained_length / low are stretched by factor, those below trained_length / high kept.

    Blended between. llama-models, Llama 3.1.
    """

    __slots__ = _fields = ("factor", "trained_length", "low", "high")
    _name = "llama3"
    factor: float
    trained_length: int
    low: float
    high: float

    def __init__(
        self, *, factor: float = 1.0, trained_length: int = 0, low: float = 1.0, high: float = 4.0
    ) -> None:
        self._set(factor, trained_length, low, high)


class Proportional(Scaling):
    """The first floor(fraction * r / 2) pairs turn, by w / factor. p-RoPE, arXiv:2410.06205; Gemma 4."""

    __slots__ = _fields = ("fraction", "factor")
    _name = "proportional"
    fraction: float
    factor: float

    def __init__(self, *, fraction: float = 1.0, factor: float = 1.0) -> None:
        self._set(fraction, factor)


class Rope(_Value):
    """What the model card says of a rope.

    Args:
        head_dim: elements of one head.
        base: above 1; "rope_theta".
        pairing: which two elements turn together, with n = rotary_dim / 2: "half" (x[i], x[i + n]), "interleaved"
            (x[2i], x[2i + 1]), or "interleaved_to_half", which reads the second and writes the first (DeepSeek-V3 in
            Hugging Face). No default.
        rotary_dim: elements of the rotated block, even. 0: head_dim.
        scaling: rotary.Yarn(...) or another; by default Unscaled().
        axis: which coordinate of a position drives each pair; empty: all the first.
        index: i in base^(-2i/r), for each pair; empty: 0, 1, 2, ...
        exponent_dim: r in base^(-2i/r). 0: rotary_dim.
        clockwise: turns by minus the angle (nanochat).
        inv_freq: radians per position of each pair, instead of what base and scaling give.
        multiplier: multiplies the frequencies, one for each pair.

    Raises:
        rotary.Error: PAIRING (not given or unknown), SHAPE, SCALING.
    """

    __slots__ = _fields = (
        "head_dim",
        "base",
        "pairing",
        "rotary_dim",
        "scaling",
        "axis",
        "index",
        "exponent_dim",
        "clockwise",
        "inv_freq",
        "multiplier",
    )
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

    def __init__(
        self,
        *,
        head_dim: int,
        base: float = 10000.0,
        pairing: Pairing | None = None,
        rotary_dim: int = 0,
        scaling: Scaling | None = None,
        axis: Sequence[int] = (),
        index: Sequence[int] = (),
        exponent_dim: int = 0,
        clockwise: bool = False,
        inv_freq: Iterable[float] = (),
        multiplier: Iterable[float] = (),
    ) -> None:
        self._set(
            head_dim,
            base,
            pairing,
            rotary_dim or head_dim,
            Unscaled() if scaling is None else scaling,
            _integers(axis),
            _integers(index),
            exponent_dim,
            clockwise,
            _floats(inv_freq),
            _floats(multiplier),
        )
        words = _core._check_rope(self)
        name, fields = words["scaling"]
        words["scaling"] = _scalings[name](**fields)
        self._set(*(words[name] for name in self._fields))

    def __repr__(self) -> str:
        plain = {"scaling": Unscaled(), "axis": (), "index": (), "exponent_dim": 0, "clockwise": False}
        plain |= {"inv_freq": (), "multiplier": (), "rotary_dim": self.head_dim}
        told = [(name, value) for name, value in zip(self._fields, self._values()) if plain.get(name, ...) != value]
        return f"Rope({', '.join(f'{name}={value!r}' for name, value in told)})"


_scalings: dict[str, Any] = {
    kind._name: kind for kind in (Unscaled, Linear, Ntk, NtkFixed, Dynamic, Yarn, LongRope, Llama3, Proportional)
}

_core._take_types(Rope)


def _rope(words: dict[str, Any]) -> Rope:
    """Of what _core says of a rope."""
    name, fields = words["scaling"]
    return Rope(**{**words, "scaling": _scalings[name](**fields)})


def sectioned_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of consecutive sections, as Qwen2-VL's ttt hhh www. sections: counts of pairs for each axis."""
    return _core._axes("sectioned", sections)


def interleaved_axes(sections: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of interleaved sections, as Qwen3-VL's thw thw ... ttt. sections: counts of pairs for each axis."""
    return _core._axes("interleaved", sections)


def ernie_axes(height_width_time: Sequence[int]) -> tuple[int, ...]:
    """Rope.axis of Ernie 4.5 VL: hwhw... ttt. height_width_time: counts of pairs."""
    return _core._axes("ernie", height_width_time)


def axial(*, head_dim: int, axes: int, base: float, pairing: Pairing) -> Rope:
    """A vision rope of several axes, each with its own run of frequencies over rotary_dim / axes elements."""
    return _rope(_core._axial(head_dim, axes, base, pairing))


def rope_parameters(rope: Rope) -> dict[str, Any]:
    """The object rope_parameters of config.json in the form of transformers 5.

    Raises:
        rotary.Error: ROPE, for what the object cannot express.
    """
    import json

    written: dict[str, Any] = json.loads(_core._rope_parameters(rope))
    return written
