"""Scalings of a rope's frequencies, and xPos, with the names and defaults of core/include/rotary/rope.h."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ._values import Record, listed

__all__ = [
    "Dynamic", "Linear", "Llama3", "LongRope", "Ntk", "NtkFixed", "Proportional", "Scaling", "ThetaScale", "Unscaled",
    "XPos", "Yarn", "YarnLog", "read",
]  # fmt: skip


class Scaling(Record):
    """A published method that changes the frequencies. core/include/rotary/rope.h has the formulas.

    i is the index of a pair, r the exponent_dim of the rope, w = base^(-2i/r) the unscaled frequency. The values are
    checked when a rope takes the scaling (rotary.Error SCALING).
    """

    name: ClassVar[str] = ""  # the method, such as "yarn"


class Unscaled(Scaling):
    """The frequencies are w. RoFormer, arXiv:2104.09864."""

    name = "default"


class Linear(Scaling):
    """The frequencies become w / factor. Position interpolation, arXiv:2306.15595."""

    name = "linear"
    factor: float = 1.0


class Ntk(Scaling):
    """The base becomes base * factor^(r/(r-2)) at any length. bloc97; Hunyuan's "alpha"."""

    name = "ntk"
    factor: float = 1.0


class NtkFixed(Scaling):
    """The frequencies become (base factor)^(-2i/r) factor^(-2/r), or with mixed_b the mixed form of kexue.fm/9706.

    It is rope_type "ntk" of vLLM.
    """

    name = "ntk_fixed"
    factor: float = 1.0
    mixed_b: float | None = None


class Dynamic(Scaling):
    """The base grows with the sequence's length beyond trained_length. Hugging Face."""

    name = "dynamic"
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

    name = "yarn"
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

    name = "longrope"
    short_factor: Sequence[float] = ()
    long_factor: Sequence[float] = ()
    trained_length: int = 0
    factor: float = 1.0
    attention_factor: float | None = None
    short_mscale: float | None = None
    long_mscale: float | None = None

    def __post_init__(self) -> None:
        for name in "short_factor", "long_factor":
            object.__setattr__(self, name, tuple(listed(getattr(self, name))))


class Llama3(Scaling):
    """Wavelengths above trained_length / low are stretched by factor, below trained_length / high they are kept.

    Between the two they are blended. llama-models, Llama 3.1.
    """

    name = "llama3"
    factor: float = 1.0
    trained_length: int = 0
    low: float = 1.0
    high: float = 4.0


class Proportional(Scaling):
    """The first floor(fraction * r / 2) pairs rotate, by w / factor. p-RoPE, arXiv:2410.06205; Gemma 4."""

    name = "proportional"
    fraction: float = 1.0
    factor: float = 1.0


class YarnLog(Scaling):
    """YaRN with a blend of the logarithms and without an attention factor. Grok in SGLang, models/grok.py.

    Args: see Yarn.
    """

    name = "yarn_log"
    factor: float = 1.0
    trained_length: int = 0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    extrapolation_factor: float = 1.0


class ThetaScale(Scaling):
    """The base becomes base^(ln(L factor / 2 pi) / ln(L / 2 pi)) with L = trained_length. SGLang's models/grok.py."""

    name = "theta_scale"
    factor: float = 1.0
    trained_length: int = 0


_scalings: dict[str, Any] = {kind.name: kind for kind in Scaling.__subclasses__()}


class XPos(Record):
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


def read(rope_scaling: Mapping[str, Any]) -> Scaling:
    """The scaling that a config's rope_scaling or rope_parameters describes, {"rope_type": "yarn", ...}.

    Raises:
        rotary.Error: CONFIG_KEY (a key that nothing reads), CONFIG_VALUE, CONFIG_MISSING, SCALING.
    """
    from ._rope import Rope  # which imports this module

    pairs = len(rope_scaling.get("short_factor", ())) or 64
    return Rope(head_dim=2 * pairs, pairing="half", scaling=rope_scaling).scaling
