"""rotary.jax: its bits beside numpy's; its gradients, maps, exports and shards beside the plain formula's."""

import contextlib
import importlib.util
import os
import unittest

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=2"

import numpy as np
import rotary
from doors import jax
from support import inv_freq, numbers, refused, rotated, rows, same_bits

if jax is not None:
    import jax.numpy as jnp

HALF = {"pairing": "half", "layout": "bthd"}
ROPE = rotary.Rope(head_dim=16, pairing="half")


@contextlib.contextmanager
def float64():
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", False)


def turn(x, cos, sin):
    return rotary.jax.rotate(x, cos, sin, first=2, **HALF)


def plain(x, cos, sin):
    """x rotated by the formula in JAX's own operations."""
    cos, sin, a, b = cos[..., None, :], sin[..., None, :], x[..., 2:8], x[..., 8:14]
    return jnp.concatenate([x[..., :2], a * cos - b * sin, b * cos + a * sin, x[..., 14:]], -1)


@unittest.skipIf(jax is None, "JAX with jax.ffi is not installed")
class Case(unittest.TestCase):
    def setUp(self):
        self.x = jnp.asarray(numbers((2, 5, 3, 16)))
        self.cos, self.sin = (jnp.asarray(v) for v in rows(np.arange(5) + 3, inv_freq(12)))

    def same(self, ours, theirs):
        self.assertTrue(same_bits(np.asarray(ours), np.asarray(theirs)))

    def same_rows(self, rows, table):
        self.same(rows[0], table.cos)
        self.same(rows[1], table.sin)

    def near(self, ours, theirs, tolerance=2e-5):
        for a, b in zip(jax.tree_util.tree_leaves(ours), jax.tree_util.tree_leaves(theirs)):
            self.assertEqual((a.shape, a.dtype), (b.shape, b.dtype))
            self.assertLess(float(jnp.abs(a - b).max()), tolerance)


class Values(Case):
    """The values. test_rotate.py has every layout, type and pairing."""

    def test_a_table_stands_in_place_of_rows(self):
        table = rotary.Table(ROPE.replace(pairing="interleaved"), range(5))
        refused(self, "PAIRING", lambda: rotary.jax.rotate(self.x, table, **HALF))
        for wrong in ((table, self.sin), (self.cos,)):
            with self.assertRaises(TypeError):
                rotary.jax.rotate(self.x, *wrong, **HALF)

    def test_other_floats_and_empty(self):
        for dtype in (jnp.bfloat16, jnp.float16):
            c, s = self.cos.astype(dtype), self.sin.astype(dtype)
            self.same(turn(self.x, c, s), turn(self.x, c.astype(jnp.float32), s.astype(jnp.float32)))
        self.assertEqual(turn(self.x[:, :0], self.cos[:0], self.sin[:0]).shape, (2, 0, 3, 16))
        self.assertEqual(turn(self.x[:0], self.cos, self.sin).shape, (0, 5, 3, 16))
        with float64():
            x, (c, s) = np.asarray(self.x, np.float64), (f(np.arange(30.0).reshape(5, 6)) for f in (np.cos, np.sin))
            got = rotary.jax.rotate_qk(jnp.asarray(x), self.x, c, s, first=2, **HALF)
            self.assertEqual([y.dtype for y in got], [jnp.float64, jnp.float32])
            self.assertLess(np.abs(got[0] - plain(x, c, s)).max(), 1e-15)


class Table(Case):
    def test_exact_rows_of_traced_positions(self):
        yarn = rotary.scalings.Yarn(factor=4, trained_length=4096)
        rope = rotary.Rope(head_dim=64, pairing="half", base=5e5, scaling=yarn)
        for dtype in (np.int32, np.int16, np.uint8, np.uint32):
            positions = np.array([0, 1, 5, 101, 7, 90], dtype)
            if dtype is np.int32:
                positions[3:] = 131071, 2**31 - 1, -(2**31)
            for shape in ((6,), (2, 3)):
                table = rotary.Table(rope, positions.reshape(shape))
                self.same_rows(jax.jit(lambda p: rotary.jax.table(rope, p))(positions.reshape(shape)), table)
            cos, _ = jax.vmap(jax.vmap(lambda p: rotary.jax.table(rope, p)))(jnp.asarray(positions.reshape(2, 3)))
            self.same(cos[:, :, 0], table.cos)
        with float64():
            positions = np.array([2**40, -(2**62)])
            self.same(jax.jit(lambda p: rotary.jax.table(rope, p))(positions)[0], rotary.Table(rope, positions).cos)

    def test_several_axes_and_frequencies(self):
        rope = ROPE.replace(axis=rotary.makers.sectioned_axes([4, 2, 2]), clockwise=True)
        for shape in ((7,), (3, 7), (3, 2, 7), (1, 7)):
            positions = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) * 3
            per_head = [rotary.makers.Frequencies(np.random.default_rng(0).normal(size=(2, 3, 8)), pairing="half")]
            self.same_rows(rotary.jax.table(rope, positions), rotary.Table(rope, positions))
            for source in (rope, rotary.frequencies(rope), *(per_head if shape[0] == 3 else ())):
                rows = jax.jit(lambda p: rotary.jax.table(source, p))(positions)  # noqa: B023
                self.same_rows(rows, rotary.Table(source, positions))

    def test_inside_a_step_with_gradients(self):
        def loss(x, position):
            return (rotary.jax.rotate(x, *rotary.jax.table(ROPE, position + jnp.arange(5)), **HALF) ** 3).sum()

        table = rotary.Table(ROPE, range(7, 12))
        y = rotary.jax.rotate(self.x, table, layout="bthd")
        expected = rotary.jax.rotate(3 * y**2, table, layout="bthd", direction="backward")
        self.near(jax.jit(jax.grad(loss))(self.x, 7), expected)
        self.near(jax.vmap(jax.grad(loss), (0, 0))(self.x[:, None], jnp.array([7, 7]))[:, 0], expected)

    def test_errors(self):
        dynamic = ROPE.replace(scaling=rotary.scalings.Dynamic(factor=2, trained_length=64))
        traced = lambda source, p, *length: jax.jit(lambda p: rotary.jax.table(source, p, *length))(p)  # noqa: E731
        refused(self, "DTYPE", lambda: traced(ROPE, jnp.arange(3.0)))
        refused(self, "SHAPE", lambda: traced(ROPE, jnp.zeros((2, 2, 2), int)))
        with float64():
            refused(self, "DTYPE", lambda: traced(ROPE, jnp.zeros(2, jnp.uint64)))
        refused(self, "LENGTH", lambda: traced(rotary.frequencies(ROPE), 3, 9))
        refused(self, "LENGTH", lambda: traced(dynamic, jnp.arange(3)))
        self.same(traced(dynamic, jnp.arange(3), 100)[0], rotary.Table(dynamic, range(3), 100).cos)
        table = rotary.Table(ROPE.replace(xpos=rotary.scalings.XPos(scale=512.0)), range(3))
        x = jnp.ones((3, 1, ROPE.head_dim))
        refused(self, "SCALING", lambda: rotary.jax.rotate_qk(x, x, table, layout="thd"))


class Errors(Case):
    def test_codes_when_traced(self):
        """Also those that no Table can have. test_rotate.py has the others."""
        x, c, s = self.x, self.cos, self.sin
        of_another_batch, too_wide = ([change(one) for one in (c, s)] for change in (
            lambda rows: jnp.stack([rows] * 3), lambda rows: jnp.tile(rows, (1, 2))))  # fmt: skip
        for code, given, words in (
            *(("PAIRING", (x, c, s), {"pairing": pairing}) for pairing in (None, "rotated")),
            *(("SHAPE", (x, *rows), {}) for rows in ((c, s[:, :4]), (c[0], s[0]), of_another_batch, too_wide)),
            *(("DTYPE", rows, {}) for rows in ((x.astype(int), c, s), (x, c.astype(int), s.astype(int)))),
        ):
            turn = lambda *given: rotary.jax.rotate(*given, **{**HALF, **words})  # noqa: B023, E731
            refused(self, code, lambda: jax.eval_shape(turn, *given))  # noqa: B023

    def test_doubled_rows_are_refused_where_their_numbers_are_there(self):
        doubled = jnp.tile(self.cos[:, :4], (1, 2)), jnp.tile(self.sin[:, :4], (1, 2))
        refused(self, "SHAPE", lambda: rotary.jax.rotate(self.x, *doubled, **HALF))
        y = rotary.jax.rotate(self.x, *doubled, **HALF, repeated=True)
        self.same(y, rotated(np.asarray(self.x), *(np.asarray(v) for v in doubled), "half", "bthd"))

    def test_the_other_functions_refuse_tracers_and_name_these(self):
        table = rotary.Table(ROPE, range(5))
        for transform in (jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())):
            with self.assertRaisesRegex(rotary.Error, "rotary.jax.rotate") as caught:
                transform(lambda x: rotary.rotate(x, table, layout="thd"))(jnp.zeros((5, 5, 3, 16))[0])
            self.assertEqual(caught.exception.code, "VALUE")


class Derivatives(Case):
    def test_under_jit_with_remat_and_of_second_order(self):
        weights = jnp.asarray(numbers((2, 5, 3, 16), seed=3))
        for transform in (
            lambda f: jax.jit(jax.grad(f, (0, 1, 2))),
            lambda f: jax.grad(jax.checkpoint(f), (0, 1, 2)),
            lambda f: jax.jacfwd(jax.jacrev(f, 1), 2),
        ):
            losses = (lambda *a: (jnp.sin(f(*a)) * weights).sum() for f in (turn, plain))  # noqa: B023
            self.near(*(transform(loss)(self.x, self.cos, self.sin) for loss in losses), 1e-4)


class Transformations(Case):
    def test_vmap_without_a_loop(self):
        many = jnp.asarray(numbers((4, 2, 5, 3, 16)))
        rows_ = [jnp.asarray(numbers((4, 5, 6), seed=seed)) for seed in (1, 2)]
        for dims in ((0, None, None), (None, 0, 0), (3, 0, None)):
            with self.subTest(dims=dims):
                given = [v[0] if d is None else jnp.moveaxis(v, 0, d) for v, d in zip((many, *rows_), dims)]
                y = jax.jit(jax.vmap(turn, dims))(*given)
                for i in range(4):
                    self.same(y[i], turn(*(v if d is None else jnp.take(v, i, d) for v, d in zip(given, dims))))
                text = str(jax.make_jaxpr(jax.vmap(turn, dims))(*given))
                self.assertFalse("scan" in text or "while" in text)
                square = lambda f: lambda *a: (jax.vmap(f, dims)(*a) ** 2).sum()  # noqa: B023, E731
                self.near(*(jax.grad(square(f), (0, 1, 2))(*given) for f in (turn, plain)), 1e-4)

    def test_scan(self):
        y, _ = jax.lax.scan(lambda x, _: (turn(x, self.cos, self.sin), None), self.x, None, length=2)
        self.same(y, turn(turn(self.x, self.cos, self.sin), self.cos, self.sin))

    def test_export(self):
        from jax import export

        b, t = export.symbolic_shape("b, t")
        given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((b, t, 3, 16), (t, 6), (t, 6))]
        for words in ({}, {"platforms": ("cpu", "tpu")}):
            exported = export.export(jax.jit(turn), **words)(*given)
            if importlib.util.find_spec("flatbuffers"):
                exported = export.deserialize(exported.serialize())
            self.same(exported.call(self.x, self.cos, self.sin), turn(self.x, self.cos, self.sin))

    def test_sharded(self):
        try:
            from jax import shard_map
        except ImportError:
            from jax.experimental.shard_map import shard_map
        from jax.sharding import Mesh, NamedSharding
        from jax.sharding import PartitionSpec as P

        self.assertEqual(len(jax.devices()), 2)
        mesh = Mesh(np.array(jax.devices()), ("d",))
        checked = {} if hasattr(jax, "shard_map") else {"check_rep": False}
        for part in (P("d"), P(None, None, "d")):
            x = self.x[:, :, :2]
            split = jax.jit(shard_map(turn, mesh=mesh, in_specs=(part, P(), P()), out_specs=part, **checked))
            self.same(split(x, self.cos, self.sin), turn(x, self.cos, self.sin))
            square = lambda f: lambda *a: (f(*a) ** 3).sum()  # noqa: E731
            self.near(*(jax.grad(square(f), (0, 1, 2))(x, self.cos, self.sin) for f in (split, plain)), 1e-4)
            placed = jax.device_put(x, NamedSharding(mesh, part))  # without shard_map XLA splits it by itself
            self.same(jax.jit(turn)(placed, self.cos, self.sin), turn(x, self.cos, self.sin))
