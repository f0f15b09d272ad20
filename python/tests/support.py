"""The rotation by numpy alone, and helpers of the tests."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import rotary

try:
    import ml_dtypes

    bfloat16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # the tests of bfloat16 are skipped
    ml_dtypes = None
    bfloat16 = None

CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "files/tests/golden/configs"
PAIRINGS = ["half", "interleaved", "interleaved_to_half"]
LAYOUTS = {"bthd": (2, 5, 3, 16), "bhtd": (2, 3, 5, 16), "tbhd": (5, 2, 3, 16), "thd": (5, 3, 16), "htd": (3, 5, 16)}
LAYOUTS |= {"td": (5, 16), "btd": (2, 5, 16), "hbtd": (3, 2, 5, 16)}


def inv_freq(rotary_dim, base=10000.0):
    return base ** (-2.0 * np.arange(rotary_dim // 2) / rotary_dim)


def rows(positions, frequencies):
    """cos and sin by numpy's float64, rounded to float32: within one unit in the last place of the exact ones."""
    angles = np.asarray(positions, np.float64)[..., None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotated(x, cos, sin, pairing, layout, first=0, backward=False):
    """x rotated by rows [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs].

    Product, product and sum are in float32 (in float64 for float64), with one rounding to x's type.
    """
    whole = "".join(letter for letter in "bth" if letter not in layout) + layout
    order = [whole.index(letter) for letter in "bthd"]
    wide = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    out = wide.reshape((1,) * (4 - x.ndim) + x.shape).transpose(order).copy()
    c, s = (table.astype(wide.dtype)[(None,) * (table.ndim == 2)] for table in (cos, sin))
    c, s = (one.repeat(out.shape[2] // one.shape[2], 2) if one.ndim == 4 else one[:, :, None] for one in (c, s))
    s = -s if backward else s
    pairs, crossed = c.shape[-1], pairing == "interleaved_to_half"
    halves = slice(first, first + pairs), slice(first + pairs, first + 2 * pairs)
    neighbours = slice(first, first + 2 * pairs, 2), slice(first + 1, first + 2 * pairs, 2)
    read, write = (halves if pairing == "half" or (crossed and backward == back) else neighbours
                   for back in (True, False))
    a, b = (out[..., part].copy() for part in read)
    out[..., write[0]], out[..., write[1]] = a * c - b * s, b * c + a * s
    return out.transpose(np.argsort(order)).reshape(x.shape).astype(x.dtype)


def bits(x):
    x = np.ascontiguousarray(x)
    return x.view({4: np.uint32, 2: np.uint16, 8: np.uint64}[x.dtype.itemsize])


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and bool((bits(a) == bits(b)).all())


def numbers(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def run_python(*words, **environment):
    """The output of a fresh Python without warnings; it runs "-c", code, or a path."""
    words = [sys.executable, "-W", "ignore", *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def refused(case, code, make):
    """Checks that make() raises rotary.Error with the code. Returns the sentence."""
    with case.assertRaises(rotary.Error) as caught:
        make()
    case.assertEqual(caught.exception.code, code)
    case.assertTrue(str(caught.exception).startswith("["))
    return str(caught.exception)
