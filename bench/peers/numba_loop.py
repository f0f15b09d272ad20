"""The loop that numba compiles."""

from functools import cache

import numpy as np
from numba import njit, prange
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def bits_of(context, value):
    return types.uint32(types.float32), lambda c, b, s, a: b.bitcast(a[0], c.get_value_type(types.uint32))


@intrinsic
def float_of(context, value):
    return types.float32(types.uint32), lambda c, b, s, a: b.bitcast(a[0], c.get_value_type(types.float32))


@njit(inline="always")
def widen_bf16(x):
    return float_of(np.uint32(np.uint32(x) << np.uint32(16)))


@njit(inline="always")
def narrow_bf16(x):
    bits = bits_of(x)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + even) >> np.uint32(16))


@njit(inline="always")
def same(x):
    return x


@cache
def loops(bf16: bool, interleaved: bool, in_place: bool, parallel: bool):
    """rotate(repetitions, q, k, q_out, k_out, cos, sin) for one storage type, pairing and way of writing."""
    widen, narrow = (widen_bf16, narrow_bf16) if bf16 else (same, same)
    step = 2 if interleaved else 1
    options = {"fastmath": True, "error_model": "numpy", "boundscheck": False}

    @njit(**options)
    def turn(x, out, cos, sin):
        pairs = x.shape[1] // 2
        partner = 1 if interleaved else pairs
        for head in range(x.shape[0]):
            given = x[head]
            written = given if in_place else out[head]  # known to be one array: the compiler vectorises
            for i in range(pairs):
                a, b = widen(given[step * i]), widen(given[step * i + partner])
                written[step * i] = narrow(a * cos[i] - b * sin[i])
                written[step * i + partner] = narrow(b * cos[i] + a * sin[i])

    @njit(parallel=parallel, **options)
    def rotate(repetitions, q, k, q_out, k_out, cos, sin):
        for _ in range(repetitions):
            for token in prange(q.shape[0]):
                turn(q[token], q_out[token], cos[token], sin[token])
                turn(k[token], k_out[token], cos[token], sin[token])

    return rotate
