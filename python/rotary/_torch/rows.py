"""Rows of cos and sin by torch's own operations, on the device of the positions.

A product of a position and a frequency is kept whole: the frequency is a sum of three numbers of 22, 22 and 9 bits,
whose products with a position below 2^31 are exact in float64 (fused or not), and cos and sin of the rounded sum are
corrected by its error. So the values are those of rotary.Table, up to a last bit in some 1e8. Farther positions err by
2^-53 of their angle. Dynamic scaling takes torch's power, within some units of 2^-53 of the frequency.
"""

import functools
import math
import operator
from array import array
from collections.abc import Callable
from itertools import count
from typing import Any

import torch
from torch import Tensor

from .._tables import Frequencies, Table, frequencies
from .._rope import Rope
from .._words import Angles, Rounding, fail
from ..scalings import Dynamic, LongRope
from .plain import is_plain, is_quiet
from .tables import TensorTable

_is_compiling = torch.compiler.is_dynamo_compiling
_count = count()
_LOW_BITS = (1 << 31) - 1  # the bits of a float64 behind its first 22


def tensor_of(doubles: bytes, device: torch.device | None = None) -> Tensor:
    return torch.tensor(memoryview(doubles).cast("d").tolist(), dtype=torch.float64, device=device)


@functools.lru_cache(maxsize=256)
def _kept(doubles: bytes, device: torch.device) -> Tensor:
    with torch.inference_mode(False):
        return tensor_of(doubles, device)


@functools.lru_cache(maxsize=256)  # equal ropes share a function, and so the graphs that are guarded by it
def _constant(doubles: bytes) -> Callable[[torch.device], Tensor]:
    """A function that gives the numbers on a device. Graphs hold the tensor, so that a call copies nothing there."""

    def constant(device: torch.device) -> Tensor:
        return _kept(doubles, device) if is_quiet() else tensor_of(doubles, device)

    # A name of its own, by which torch 2.4 to 2.9 tell the constants of a graph apart.
    constant.__code__ = constant.__code__.replace(co_name=f"constant_{next(_count)}")
    return torch.compiler.assume_constant_result(constant)


def _in_three(x: float) -> tuple[float, float, float]:
    """Numbers of at most 22, 22 and 9 bits whose sum is x."""
    exponent = math.frexp(x)[1]
    first = math.ldexp(math.trunc(math.ldexp(x, 22 - exponent)), exponent - 22)
    second = math.ldexp(math.trunc(math.ldexp(x - first, 44 - exponent)), exponent - 44)
    return first, second, x - first - second


def _cut(x: Tensor) -> Tensor:
    return (x.view(torch.int64) & ~_LOW_BITS).view(torch.float64)


def _added(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded sum and its error."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


def _product(place: Tensor, parts: Tensor) -> tuple[Tensor, Tensor]:
    """The rounded product of a position and a frequency, and its error. A product 0 keeps the sign of its sine."""
    high, middle, low = (place * part for part in parts)
    upper = high + middle
    angle = upper + low
    return angle, ((high - upper) + middle) + ((upper - angle) + low)


def _rounded(x: Tensor, rounding: str) -> Tensor:
    """float64 rounded once to the values of float16 or bfloat16."""
    drop = {"f16": 42, "bf16": 45}[rounding]
    bits = x.view(torch.int64)
    kept = ((bits + ((1 << (drop - 1)) - 1) + ((bits >> drop) & 1)) >> drop << drop).view(torch.float64)
    if rounding == "bf16":
        return kept
    kept = torch.where(kept.abs() < 65536, kept, kept * math.inf)
    return torch.where(x.abs() < 2.0**-14, (x + 3 * 2.0**27) - 3 * 2.0**27, kept)  # subnormals: multiples of 2^-24


class _Growth:
    """The frequencies of Dynamic scaling, whose base grows with the length. They have one axis, or those of `near`."""

    def __init__(self, rope: Rope, scaling: Dynamic, speeds: Frequencies) -> None:
        index, r = rope.index or range(speeds._pairs), rope.exponent_dim or rope.rotary_dim
        self._factor, self._trained, self._base = scaling.factor, scaling.trained_length, rope.base
        self._power = r / (r - 2) if r > 2 else 1.0  # with one pair, of index 0, the base does not matter
        self._powers = _constant(array("d", (2 * i / r * self._power for i in index)).tobytes())
        self._narrow_exponents = _constant(array("d", array("f", (2 * i / r for i in index))).tobytes())
        self._multiplier = _constant(array("d", rope.multiplier or [1.0] * speeds._pairs).tobytes())
        self._speeds = _constant(speeds._inv_freq)

    def at(self, length: Tensor, near: Tensor, factor: float, narrow: bool) -> tuple[Tensor, Any]:
        """The parts of the frequencies, in the form of `near`, those up to the trained length; and the factor."""
        parts = (self._narrow if narrow else self._exact)(length, near.device)
        return torch.where(near.sum(1, keepdim=True) != 0, parts, 0.0), factor  # 0 for pairs of another axis

    def _exact(self, length: Tensor, device: torch.device) -> Tensor:
        growth = 1 + self._factor * (length.clamp(min=self._trained) - self._trained) / self._trained
        whole = self._speeds(device) * growth ** -self._powers(device)
        first = _cut(whole)
        second = _cut(whole - first)
        return torch.stack((first, second, whole - first - second))

    def _narrow(self, length: Tensor, device: torch.device) -> Tensor:
        """The frequencies by the steps of frameworks, each rounded to float32."""
        stretch = (self._factor * length.float() / self._trained - (self._factor - 1)).double()
        growth = torch.where(length > self._trained, stretch, 1.0) ** self._power
        base = self._base * growth.float()
        period = (base.double() ** self._narrow_exponents(device)).float()
        return (1 / period * self._multiplier(device).float())[None].double()


class _Far:
    """The frequencies of LongRope scaling beyond the trained length, and both attention factors."""

    def __init__(self, trained: int, parts: bytes, near_factor: float, far_factor: float) -> None:
        self._trained, self._parts = trained, _constant(parts)
        self._factors = _constant(array("d", (near_factor, far_factor)).tobytes())

    def at(self, length: Tensor, near: Tensor, factor: float, narrow: bool) -> tuple[Tensor, Any]:
        is_far, (of_near, of_far) = length > self._trained, self._factors(near.device).unbind(0)
        far = self._parts(near.device).view(near.shape)
        return torch.where(is_far, far, near), torch.where(is_far, of_far, of_near)


def _places(positions: Tensor, axes: int, sums: bool, heads: int) -> list[Tensor]:
    """The positions on each axis in float64, with dimensions of size 1 for heads and pairs."""
    if positions.requires_grad and torch.is_grad_enabled():
        fail("TORCH", "positions", "a tensor must not record a gradient but got requires_grad: pass x.detach()")
    kind = positions.dtype
    if kind is torch.bool or kind.is_complex or (kind.is_floating_point and kind.itemsize < 4):
        fail("DTYPE", "positions", f"a tensor must be of integers, float32 or float64 but got {kind}")
    several = axes > 1
    if positions.dim() > (3 if several else 2):
        rule = "[tokens], [axes, tokens] or [axes, batch, tokens]" if several else "[tokens] or [batch, tokens]"
        which = "several axes" if several else "one axis"
        fail("SHAPE", "positions", f"a rope of {which} must have {rule} but got {positions.dim()} dimensions")
    on_axes = several and positions.dim() > 1
    count = positions.shape[0] if on_axes else 1
    if count != axes and (count != 1 or sums):
        rule = f"the first dimension must be the rope's {axes} axes{'' if sums else ', or 1,'}"
        fail("SHAPE", "positions", f"{rule} but got {list(positions.shape)}")
    places = positions.unbind(0) if on_axes else (positions if positions.dim() > 0 else positions.reshape(1),)
    if heads > 1:
        return [(one[None] if one.dim() == 1 else one).double()[..., None, None] for one in places]
    return [one.double()[..., None] for one in places]


def _exact(places: list[Tensor], speeds: Tensor, phase: Any) -> tuple[Tensor, Tensor]:
    (total, error), *others = [_product(place, parts) for place, parts in zip(places, speeds.unbind(0))]
    for angle, rest in others:
        total, more = _added(total, angle)
        error = error + rest + more
    if phase is not None:
        total, more = _added(total, phase(total.device).view(speeds.shape[2:]))
        error = error + more
    cos, sin = total.cos(), total.sin()
    return cos - error * sin, sin + error * cos


def _narrow(places: list[Tensor], speeds: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin by the steps of frameworks in float32, each correctly rounded."""
    terms = [place.float() * speed[0].float() for place, speed in zip(places, speeds.unbind(0))]
    angle = functools.reduce(operator.add, terms).double()
    return angle.cos().float(), angle.sin().float()


def as_tensor(positions: Any, device: torch.device | None) -> Tensor:
    """Positions of every form as a tensor of the device, None for torch's default."""
    if isinstance(positions, Tensor):
        return positions if device is None else positions.to(device)
    if isinstance(positions, range):
        return torch.arange(positions.start, positions.stop, positions.step, device=device)
    if hasattr(positions, "dtype"):
        return torch.as_tensor(positions, device=device)
    return torch.tensor(positions, dtype=torch.float64, device=device)


class RowMaker:
    """The rows of a rope: Tables in the CPU's memory, and else tensors that no host computes.

    source becomes the rope's frequencies if the rows do not depend on the length.
    """

    def __init__(self, source: Rope | Frequencies, angles: Angles, rounding: Rounding) -> None:
        self.angles: Angles = angles
        self.rounding: Rounding = rounding
        self.pairing = source.pairing
        self.source: Rope | Frequencies = source
        self._made_of = source, angles, rounding
        self._by_length: _Growth | _Far | None = None
        speeds = source if isinstance(source, Frequencies) else frequencies(source, 0)
        trial = speeds.xpos.center  # where no amplitude overflows
        Table(speeds, [[trial]] * speeds.axes if speeds.summed_axes else trial, angles=angles, rounding=rounding)
        if isinstance(source, Rope):
            scaling = source.scaling
            if isinstance(scaling, Dynamic) and not source.inv_freq:
                self._by_length = _Growth(source, scaling, speeds)
            elif isinstance(scaling, LongRope):
                far = frequencies(source, scaling.trained_length + 1)
                factors = speeds.attention_factor, far.attention_factor
                self._by_length = _Far(scaling.trained_length, self._parts(far), *factors)
            else:
                self.source = speeds
        self._ignores_length = self.source is not source
        xpos, n = speeds.xpos, speeds._pairs
        self.has_xpos = xpos.scale != 0
        zeta = array("d", (math.log((5 * i + 2 * n) / (7 * n)) for i in range(n))).tobytes()
        amplitude = xpos.center, -xpos.scale if xpos.reciprocal else xpos.scale
        # A graph compares a tuple of constants in one step.
        self._facts: tuple[Any, ...] = (
            *(angles == "float32", rounding, speeds.axes, speeds.summed_axes > 0, speeds.head_rows, speeds._pairs),
            *(speeds.attention_factor, speeds.clockwise, amplitude if self.has_xpos else None),
        )
        self.axes = speeds.axes
        self._speeds, self._zeta = _constant(self._parts(speeds)), _constant(zeta)
        self._phase = _constant(speeds._phase) if speeds._phase else None

    def __reduce__(self) -> tuple[Any, ...]:
        return RowMaker, self._made_of

    def _parts(self, speeds: Frequencies) -> bytes:
        """The frequencies of each axis, [axes, parts, heads, pairs]: 0 for pairs that turn by another axis."""
        narrow, result = self.angles == "float32", array("d")
        of_float32 = narrow and speeds._inv_freq_float32
        flat = memoryview(of_float32 or speeds._inv_freq).cast("f" if of_float32 else "d").tolist()
        rows, pairs = max(1, speeds.summed_axes), speeds._pairs
        for at in range(speeds.axes):
            own = []
            for head in range(speeds.head_rows):
                row = head * rows + (at if speeds.summed_axes else 0)
                own += flat[row * pairs : (row + 1) * pairs]
            if speeds.axis:
                own = [speed if axis == at else 0.0 for speed, axis in zip(own, speeds.axis * speeds.head_rows)]
            for part in [own] if narrow else zip(*map(_in_three, own)):
                result.extend(part)
        return result.tobytes()

    # ---- tables ----

    def table(
        self, positions: Any, length: Any = None, device: torch.device | None = None, dtype: torch.dtype = torch.float32
    ) -> Table | TensorTable:
        """The table at the positions, whose rows are on the device, by default the positions' own."""
        on_host = not _is_compiling() and dtype is torch.float32 and (device is None or device.type == "cpu")
        if on_host and (not isinstance(positions, Tensor) or (is_quiet() and is_plain(positions))):
            length = None if self._ignores_length else length
            return Table(self.source, positions, length, angles=self.angles, rounding=self.rounding)
        cos, sin = self.at(as_tensor(positions, device), length, dtype)
        return TensorTable(cos, sin, self.pairing, xpos=self.has_xpos)

    # ---- tensors ----

    def at(self, positions: Tensor, length: Any = None, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
        """cos and sin at the positions, of the shape that a rotary.Table has."""
        narrow, rounding, axes, sums, heads, pairs, factor, clockwise, amplitude = self._facts
        places = _places(positions, axes, sums, heads)
        speeds = self._speeds(positions.device).view(axes, -1, *((heads,) if heads > 1 else ()), pairs)
        if self._by_length is not None:
            if length is None:
                length = positions.max().double().floor() + 1 if positions.numel() > 0 else 0
            if not isinstance(length, Tensor):
                length = torch.full((), length, dtype=torch.float64, device=positions.device)
            speeds, factor = self._by_length.at(length, speeds, factor, narrow)
        elif length is not None and not self._ignores_length:
            rule = "length must go to rotary.frequencies(rope, length), which made these frequencies"
            fail("LENGTH", "Table", rule)
        if len(places) < axes:
            speeds = speeds.sum(0, keepdim=True)  # exact, since each pair turns by one axis
        cos, sin = _narrow(places, speeds) if narrow else _exact(places, speeds, self._phase)
        if amplitude is not None:
            center, scale = amplitude
            power = (places[0] - center) / scale
            factor = (power * self._zeta(power.device)).exp() * factor
        if not isinstance(factor, float) or factor != 1:
            cos, sin = cos * factor, sin * factor
        if rounding != "f32" and dtype is torch.float32:
            cos, sin = _rounded(cos.double(), rounding), _rounded(sin.double(), rounding)
        # In one tensor of their own type, as Inductor would make or convert them again for each head of q and k.
        cos, sin = torch.stack((cos.to(dtype), (-sin if clockwise else sin).to(dtype))).unbind(0)
        return cos, sin
