"""rotary.jax against numpy, bit for bit; what it refuses."""

import numpy as np
import rotary
from jax_case import Case, float64, jax, jnp
from support import DTYPES, all_layouts, inv_freq, numbers, refused, rotated, rows


class Values(Case):
    def test_all_layouts_dtypes_and_pairings(self):
        for (layout, shape), dtype, pairing in all_layouts():
            for first, direction in ((0, "forward"), (3, "backward")):
                with self.subTest(layout=layout, dtype=dtype, pairing=pairing, first=first):
                    x = numbers(shape, dtype)
                    c, s = rows(np.arange(5), inv_freq(12))
                    expected = x.copy()
                    part = np.ascontiguousarray(x[..., first:])
                    expected[..., first:] = rotated(part, c, s, pairing, layout, direction == "backward")

                    def turn(x, c, s):
                        words = {"pairing": pairing, "layout": layout, "first": first, "direction": direction}
                        return rotary.jax.rotate(x, c, s, **words)

                    self.same(jax.jit(turn)(x, c, s), expected)
                    self.same(turn(jnp.asarray(x), c, s), expected)

    def test_rows_of_each_batch(self):
        for layout, shape in (("bthd", (2, 5, 3, 16)), ("tbhd", (5, 2, 3, 16)), ("hbtd", (3, 2, 5, 16))):
            x = numbers(shape)
            c, s = rows(np.arange(10).reshape(2, 5) * 7, inv_freq(12))
            y = rotary.jax.rotate(x, c, s, pairing="interleaved", layout=layout)
            self.same(y, rotated(x, c, s, "interleaved", layout))
            y = rotary.jax.rotate(x, c[:1], s[:1], pairing="interleaved", layout=layout)
            self.same(y, rotated(x, c[0], s[0], "interleaved", layout))

    def test_one_token_without_its_dimension(self):
        x = numbers((3, 16))
        c, s = rows([9], inv_freq(16))
        expected = rotated(x, c, s, "half", "hd")
        for cos, sin in ((c, s), (c[None], s[None])):
            y = rotary.jax.rotate(x, cos, sin, pairing="half", layout="hd")
            self.same(y, expected)
        x = numbers((2, 3, 16))
        c, s = rows([[9], [4]], inv_freq(16))
        y = rotary.jax.rotate(x, c, s, pairing="half", layout="bhd")
        self.same(y, rotated(x, c, s, "half", "bhd"))

    def test_qk(self):
        for dtype in DTYPES:
            q, k = numbers((2, 4, 5, 16), dtype), numbers((2, 2, 5, 24), np.float32, seed=1)
            c, s = rows(np.arange(5), inv_freq(12))
            made = jax.jit(lambda *a: rotary.jax.rotate_qk(*a, pairing="half", layout="bhtd"))(q, k, c, s)
            for x, y in zip((q, k), made):
                self.same(y, rotated(x, c, s, "half", "bhtd"))

    def test_a_table_in_place_of_rows(self):
        table = rotary.Table(rotary.Rope(head_dim=16, rotary_dim=12, pairing="interleaved"), range(5))
        x = numbers((2, 5, 3, 16))
        expected = rotary.rotate(x, table, layout="bthd")
        self.same(rotary.jax.rotate(x, table, layout="bthd"), expected)
        cos, sin = rotary.jax.rows(table)
        y = rotary.jax.rotate(x, cos, sin, pairing="interleaved", layout="bthd")
        self.same(y, expected)
        refused(self, "PAIRING", lambda: rotary.jax.rotate(x, table, pairing="half", layout="bthd"))
        with self.assertRaises(TypeError):
            rotary.jax.rotate(x, table, sin, layout="bthd")

    def test_rows_of_other_floats(self):
        for dtype in (jnp.bfloat16, jnp.float16):
            c, s = self.cos.astype(dtype), self.sin.astype(dtype)
            expected = self.turn(self.x, c.astype(jnp.float32), s.astype(jnp.float32))
            self.same(self.turn(self.x, c, s), expected)

    def test_float64_by_the_plain_formula(self):
        with float64():
            x, k = np.asarray(self.x, np.float64), np.asarray(self.x)
            c, s = np.cos(np.arange(30.0).reshape(5, 6)), np.sin(np.arange(30.0).reshape(5, 6))
            words = {"pairing": "half", "layout": "bthd"}
            made = rotary.jax.rotate_qk(jnp.asarray(x), jnp.asarray(k), c, s, **words)
            self.assertEqual([y.dtype for y in made], [jnp.float64, jnp.float32])
            a, b = x[..., :6], x[..., 6:12]
            c, s = c[:, None], s[:, None]
            expected = np.concatenate([a * c - b * s, b * c + a * s, x[..., 12:]], -1)
            self.assertLess(np.abs(np.asarray(made[0]) - expected).max(), 1e-15)

    def test_empty(self):
        y = self.turn(jnp.zeros((2, 0, 3, 16)), self.cos[:0], self.sin[:0])
        self.assertEqual(y.shape, (2, 0, 3, 16))
        self.assertEqual(self.turn(jnp.zeros((0, 5, 3, 16)), self.cos, self.sin).shape, (0, 5, 3, 16))


class Table(Case):
    def test_exact_rows_of_traced_positions(self):
        rope = rotary.Rope(head_dim=64, pairing="half", base=5e5, scaling=rotary.Yarn(factor=4, trained_length=4096))
        for dtype in (np.int32, np.int16, np.uint8, np.uint32):
            positions = np.array([0, 1, 5, 101, 7, 90], dtype)
            if dtype is np.int32:
                positions[3:] = 131071, 2**31 - 1, -(2**31)
            table = rotary.Table(rope, positions)
            for shape in ((6,), (2, 3)):
                cos, sin = jax.jit(lambda p: rotary.jax.table(rope, p))(positions.reshape(shape))
                self.assertEqual(cos.shape, (*shape, 32))
                self.same(np.asarray(cos).reshape(6, 32), table.cos)
                self.same(np.asarray(sin).reshape(6, 32), table.sin)
            cos, _ = jax.vmap(lambda p: rotary.jax.table(rope, p))(jnp.asarray(positions))
            self.same(np.asarray(cos)[:, 0], table.cos)

    def test_int64(self):
        rope = rotary.Rope(head_dim=64, pairing="half")
        with float64():
            positions = np.array([2**40, -(2**62)])
            cos, _ = jax.jit(lambda p: rotary.jax.table(rope, p))(positions)
            self.same(cos, rotary.Table(rope, positions).cos)

    def test_several_axes_and_frequencies(self):
        axes = rotary.sectioned_axes([4, 2, 2])
        rope = rotary.Rope(head_dim=16, pairing="half", axis=axes, clockwise=True)
        for shape in ((7,), (3, 7), (3, 2, 7), (1, 7)):
            positions = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) * 3
            for source in (rope, rotary.frequencies(rope)):
                cos, sin = jax.jit(lambda p: rotary.jax.table(source, p))(positions)
                table = rotary.Table(rope, positions)
                self.same(cos, table.cos)
                self.same(sin, table.sin)

    def test_concrete_positions(self):
        rope = rotary.Rope(head_dim=16, pairing="half")
        for positions in (5, range(3), [0.5, 2], jnp.arange(4), np.arange(6).reshape(2, 3)):
            table = rotary.Table(rope, positions)
            cos, sin = rotary.jax.table(rope, positions)
            self.assertIsInstance(cos, jax.Array)
            self.same(cos, table.cos)
            self.same(sin, table.sin)

    def test_inside_a_step_with_gradients(self):
        rope = rotary.Rope(head_dim=16, pairing="half")

        def loss(x, position):
            cos, sin = rotary.jax.table(rope, position + jnp.arange(5))
            return (rotary.jax.rotate(x, cos, sin, pairing="half", layout="bthd") ** 3).sum()

        table = rotary.Table(rope, range(7, 12))
        y = rotary.jax.rotate(self.x, table, layout="bthd")
        expected = rotary.jax.rotate(3 * y**2, table, layout="bthd", direction="backward")
        self.near(jax.jit(jax.grad(loss))(self.x, 7), expected)
        self.near(jax.vmap(jax.grad(loss), (0, 0))(self.x[:, None], jnp.array([7, 7]))[:, 0], expected)

    def test_errors(self):
        rope = rotary.Rope(head_dim=16, pairing="half")
        made = lambda source, p: lambda: jax.jit(lambda p: rotary.jax.table(source, p))(p)  # noqa: E731
        refused(self, "DTYPE", made(rope, jnp.arange(3.0)))
        refused(self, "SHAPE", made(rope, jnp.zeros((2, 2, 2), int)))
        with float64():
            refused(self, "DTYPE", made(rope, jnp.zeros(2, jnp.uint64)))
        refused(self, "LENGTH", lambda: jax.jit(lambda p: rotary.jax.table(rotary.frequencies(rope), p, 9))(3))
        dynamic = rope.replace(scaling=rotary.Dynamic(factor=2, trained_length=64))
        refused(self, "LENGTH", made(dynamic, jnp.arange(3)))
        cos, _ = jax.jit(lambda p: rotary.jax.table(dynamic, p, length=100))(jnp.arange(3))
        self.same(cos, rotary.Table(dynamic, range(3), 100).cos)


class Errors(Case):
    def test_codes_when_traced(self):
        x, c, s = self.x, self.cos, self.sin

        def turn(x=x, c=c, s=s, pairing="half", layout="bthd", **words):
            return lambda: jax.eval_shape(
                lambda x, c, s: rotary.jax.rotate(x, c, s, pairing=pairing, layout=layout, **words), x, c, s
            )

        for expected, *calls in (
            ("PAIRING", turn(pairing=None), turn(pairing="rotated")),
            ("SHAPE", turn(layout="bshd"), turn(layout="thd"), turn(first=6), turn(first=-1)),
            ("SHAPE", turn(c=c[1:], s=s[1:]), turn(s=s[:, :4])),
            ("SHAPE", turn(c=jnp.stack([c] * 3), s=jnp.stack([s] * 3))),  # of another batch
            ("SHAPE", turn(c=jnp.tile(c, (1, 2)), s=jnp.tile(s, (1, 2)))),  # of too many columns
            ("DTYPE", turn(x=x.astype(int)), turn(c=c.astype(int), s=s.astype(int))),
            ("VALUE", turn(direction="back")),
        ):
            for call in calls:
                refused(self, expected, call)
        with self.assertRaises(TypeError):
            rotary.jax.rotate(x, c, pairing="half", layout="bthd")

    def test_doubled_rows_are_refused_where_their_numbers_are_there(self):
        doubled = jnp.tile(self.cos[:, :4], (1, 2)), jnp.tile(self.sin[:, :4], (1, 2))
        words = {"pairing": "half", "layout": "bthd"}
        refused(self, "SHAPE", lambda: rotary.jax.rotate(self.x, *doubled, **words))
        y = rotary.jax.rotate(self.x, *doubled, **words, repeated=True)
        expected = rotated(np.asarray(self.x), *(np.asarray(v) for v in doubled), "half", "bthd")
        self.same(y, expected)

    def test_the_other_functions_refuse_tracers_and_name_these(self):
        table = rotary.Table(rotary.Rope(head_dim=16, pairing="half"), range(5))
        for transform in (jax.jit, jax.vmap, lambda f: jax.grad(lambda x: f(x).sum())):
            with self.assertRaisesRegex(rotary.Error, "rotary.jax.rotate") as caught:
                transform(lambda x: rotary.rotate(x, table, layout="thd"))(jnp.zeros((5, 5, 3, 16))[0])
            self.assertEqual(caught.exception.code, "VALUE")
