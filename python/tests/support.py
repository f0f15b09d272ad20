"""The rotation again, by numpy alone, and what the tests share."""

import itertools
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

DTYPES = [np.dtype(np.float32), np.dtype(np.float16)] + ([bfloat16] if bfloat16 is not None else [])
CONFIGS = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "configs"
PAIRINGS = ["half", "interleaved", "interleaved_to_half"]
LAYOUTS = {"bthd": (2, 5, 3, 16), "bhtd": (2, 3, 5, 16), "tbhd": (5, 2, 3, 16), "thd": (5, 3, 16), "htd": (3, 5, 16)}
LAYOUTS |= {"td": (5, 16), "btd": (2, 5, 16), "hbtd": (3, 2, 5, 16)}


def inv_freq(rotary_dim, base=10000.0):
    return base ** (-2.0 * np.arange(rotary_dim // 2) / rotary_dim)


def rows(positions, frequencies):
    """cos and sin by numpy's float64, rounded to float32: within one unit in the last place of the exact ones."""
    angles = np.asarray(positions, np.float64)[..., None] * frequencies
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def rotated(x, cos, sin, pairing, layout, backward=False):
    """x rotated by rows [tokens, pairs] or [batch, tokens, pairs]: float32 product, product, sum, one rounding."""
    order = [layout.index(letter) if letter in layout else None for letter in "bth"]
    wide = x.astype(np.float32).transpose([at for at in order if at is not None] + [layout.index("d")])
    for place, at in enumerate(order):
        if at is None:
            wide = np.expand_dims(wide, place)
    pairs = cos.shape[-1]
    c, s = (table if table.ndim == 3 else table[None] for table in (cos, sin))
    c, s = c[:, :, None, :], (-s if backward else s)[:, :, None, :]
    out = wide.copy()
    block = wide[..., : 2 * pairs]
    halves = block[..., :pairs], block[..., pairs:]
    neighbours = block[..., 0::2], block[..., 1::2]
    crossed = pairing == "interleaved_to_half"
    a, b = halves if pairing == "half" or (crossed and backward) else neighbours
    first, second = a * c - b * s, b * c + a * s
    if pairing == "half" or (crossed and not backward):
        out[..., :pairs], out[..., pairs : 2 * pairs] = first, second
    else:
        out[..., 0 : 2 * pairs : 2], out[..., 1 : 2 * pairs : 2] = first, second
    for place in reversed([place for place, at in enumerate(order) if at is None]):
        out = out.squeeze(place)
    kept = [letter for letter in "bth" if letter in layout] + ["d"]
    return out.transpose([kept.index(letter) for letter in layout]).astype(x.dtype)


def bits(x):
    x = np.ascontiguousarray(x)
    return x.view({4: np.uint32, 2: np.uint16, 8: np.uint64}[x.dtype.itemsize])


def same_bits(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and bool((bits(a) == bits(b)).all())


def numbers(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def all_layouts():
    return itertools.product(LAYOUTS.items(), DTYPES, PAIRINGS)


def run_python(*words, **environment):
    """What a fresh Python prints, without warnings: of "-c", code or of a path."""
    words = [sys.executable, "-W", "ignore", *map(str, words)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def refused(case, code, make):
    """That make() raises rotary.Error with this code; its sentence."""
    with case.assertRaises(rotary.Error) as caught:
        make()
    case.assertEqual(caught.exception.code, code)
    case.assertTrue(str(caught.exception).startswith("["))
    return str(caught.exception)
