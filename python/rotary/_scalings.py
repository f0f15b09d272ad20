"""Frozen values; the scalings, with the names and defaults of the C++ library (include/rotary/rope.h)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

_T = TypeVar("_T")


class _Value:
    """Frozen; compares, hashes and pickles as its fields."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls.__module__ = "rotary"  # where it is found: for help() and for pickles

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
        return _restored, (type(self), self._values())

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


class _Signature:
    """What help() and inspect show of a class of _Record: its fields by name, with their defaults."""

    def __get__(self, value: object, kind: type[_Record]) -> Any:
        from inspect import Parameter, Signature

        if kind.__init__ is not _Record.__init__:
            return None
        defaults = {name: vars(kind).get(name, Parameter.empty) for name in kind._fields}
        told = {name: {"default": default, "annotation": kind.__annotations__[name]} for name, default in defaults.items()}
        fields = [Parameter(name, Parameter.KEYWORD_ONLY, **words) for name, words in told.items()]
        return Signature(fields, return_annotation="None")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class _Record(_Value):
    """A value whose fields are the annotations of its class, with the attributes there as defaults.

    Sequences of floats become tuples. These are no dataclasses: those would add two thirds to the time of an import.
    """

    __signature__ = _Signature()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._fields = tuple(name for name, kind in cls.__annotations__.items() if not kind.startswith("ClassVar"))

    def __init__(self, **given: Any) -> None:
        kind, values = type(self), []
        for name in self._fields:
            if name not in given and name not in vars(kind):
                raise TypeError(f"{kind.__name__}.__init__() missing the required keyword-only argument '{name}'")
            value = given.pop(name) if name in given else vars(kind)[name]
            values.append(_tuple(_real, value) if kind.__annotations__[name] == "Sequence[float]" else value)
        for name in given:
            raise TypeError(f"{kind.__name__}.__init__() got an unexpected keyword argument '{name}'")
        self._set(*values)

    def replace(self, **changes: Any) -> Self:
        """The same value with other fields."""
        return type(self)(**dict(zip(self._fields, self._values())) | changes)

    @classmethod
    def _of(cls, *values: Any) -> Self:
        return cls(**dict(zip(cls._fields, values, strict=True)))


def _restored(kind: Any, values: tuple[Any, ...]) -> Any:
    """The value of a pickle, checked as a new one."""
    return kind._of(*values)


def _whole(value: Any) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"each must be an int but got {type(value).__name__}")
    return operator.index(value)


def _real(value: Any) -> float:
    if isinstance(value, (str, bytes, bytearray)):
        raise TypeError(f"each must be a number but got {type(value).__name__}")
    return float(value)


def _tuple(kind: Callable[[Any], _T], values: Iterable[Any]) -> tuple[_T, ...]:
    """kind: _whole or _real."""
    return tuple(map(kind, values.tolist() if hasattr(values, "tolist") else values))


class Scaling(_Record):
    """A published method that changes the frequencies. The formulas: include/rotary/rope.h.

    i is the index of a pair, r the exponent_dim of the rope, w = base^(-2i/r) the unscaled frequency; every value is
    checked where a rope takes the scaling (rotary.Error SCALING).
    """

    _name: ClassVar[str] = ""

    @property
    def name(self) -> str:
        """The method's name, as "yarn"."""
        return self._name


class Unscaled(Scaling):
    """w. RoFormer, arXiv:2104.09864."""

    _name = "default"


class Linear(Scaling):
    """w / factor. Position interpolation, arXiv:2306.15595."""

    _name = "linear"
    factor: float = 1.0


class Ntk(Scaling):
    """The base becomes base * factor^(r/(r-2)) at any length. bloc97; Hunyuan's "alpha"."""

    _name = "ntk"
    factor: float = 1.0


class NtkFixed(Scaling):
    """(base factor)^(-2i/r) factor^(-2/r), or with mixed_b the mixed form. kexue.fm/9706; vLLM's rope_type "ntk"."""

    _name = "ntk_fixed"
    factor: float = 1.0
    mixed_b: float | None = None


class Dynamic(Scaling):
    """The base grows with the length in play beyond trained_length. Hugging Face."""

    _name = "dynamic"
    factor: float = 1.0
    trained_length: int = 0


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

    _name = "longrope"
    short_factor: Sequence[float] = ()
    long_factor: Sequence[float] = ()
    trained_length: int = 0
    factor: float = 1.0
    attention_factor: float | None = None
    short_mscale: float | None = None
    long_mscale: float | None = None


class Llama3(Scaling):
    """Wavelengths above trained_length / low are stretched by factor, those below trained_length / high kept.

    Blended between. llama-models, Llama 3.1.
    """

    _name = "llama3"
    factor: float = 1.0
    trained_length: int = 0
    low: float = 1.0
    high: float = 4.0


class Proportional(Scaling):
    """The first floor(fraction * r / 2) pairs turn, by w / factor. p-RoPE, arXiv:2410.06205; Gemma 4."""

    _name = "proportional"
    fraction: float = 1.0
    factor: float = 1.0


class YarnLog(Scaling):
    """YaRN's blend of the logarithms, without an attention factor. Grok in SGLang, models/grok.py. Args as of Yarn."""

    _name = "yarn_log"
    factor: float = 1.0
    trained_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    extrapolation_factor: float = 1.0


class ThetaScale(Scaling):
    """The base becomes base^(ln(L0 factor / 2 pi) / ln(L0 / 2 pi)), L0 trained_length. Grok in SGLang, models/grok.py."""

    _name = "theta_scale"
    factor: float = 1.0
    trained_length: int = 0


_scalings: dict[str, Any] = {kind._name: kind for kind in Scaling.__subclasses__()}
