"""What the tests of rotary.jax share."""

import contextlib
import os
import unittest

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"

import rotary
from support import inv_freq, numbers, rows, same_bits

import numpy as np

try:
    import jax
    import jax.numpy as jnp

    jax.ffi
except (ImportError, AttributeError):
    jax = jnp = None


def plain(x, cos, sin, pairing="half", first=0):
    """The formula of "bthd" in JAX's own operations."""
    cos, sin = (v[:, None] if v.ndim == 2 else v[:, :, None] for v in (cos, sin))
    n = cos.shape[-1]
    block = x[..., first : first + 2 * n]
    if pairing == "half":
        a, b = block[..., :n], block[..., n:]
    else:
        a, b = block[..., ::2], block[..., 1::2]
    one, two = a * cos - b * sin, b * cos + a * sin
    made = jnp.concatenate([one, two], -1)
    if pairing == "interleaved":
        made = jnp.stack([one, two], -1).reshape(block.shape)
    return jnp.concatenate([x[..., :first], made, x[..., first + 2 * n :]], -1)


@contextlib.contextmanager
def float64():
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


@unittest.skipIf(jax is None, "JAX with jax.ffi is not installed")
class Case(unittest.TestCase):
    def setUp(self):
        self.x = jnp.asarray(numbers((2, 5, 3, 16)))
        self.cos, self.sin = (jnp.asarray(v) for v in rows(np.arange(5) + 3, inv_freq(12)))
        self.turn = lambda x, c, s: rotary.jax.rotate(x, c, s, pairing="half", layout="bthd", first=2)
        self.plain = lambda x, c, s: plain(x, c, s, first=2)

    def same(self, ours, theirs):
        self.assertTrue(same_bits(np.asarray(ours), np.asarray(theirs)))

    def near(self, ours, theirs, tolerance=2e-5):
        for a, b in zip(jax.tree_util.tree_leaves(ours), jax.tree_util.tree_leaves(theirs)):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            self.assertLess(float(jnp.abs(a - b).max()), tolerance)
