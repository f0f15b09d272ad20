"""rotary.jax differentiated, mapped, exported and sharded, against the plain formula in JAX's own operations."""

import importlib.util

import numpy as np
import rotary
from jax_case import Case, jax, jnp
from support import DTYPES, PAIRINGS, numbers


class Derivatives(Case):
    def loss(self, turn):
        weights = jnp.asarray(numbers((2, 5, 3, 16), seed=3))
        return lambda x, c, s: (jnp.sin(turn(x, c, s)) * weights).sum()

    def both(self, transform):
        return [transform(self.loss(turn))(self.x, self.cos, self.sin) for turn in (self.turn, self.plain)]

    def test_reverse_forward_and_both(self):
        self.near(*self.both(lambda f: jax.jit(jax.grad(f, (0, 1, 2)))))
        self.near(*self.both(lambda f: jax.grad(f, (0, 1, 2))))
        self.near(*self.both(lambda f: lambda *a: jax.jvp(f, a, tuple(v + 1 for v in a))), 1e-4)
        self.near(*self.both(lambda f: jax.jacfwd(jax.jacrev(f, 1), 2)), 1e-4)

        def squares(f):
            return jax.grad(lambda *a: sum((g**2).sum() for g in jax.grad(f, (0, 1, 2))(*a)), (0, 1, 2))

        self.near(*self.both(squares), 1e-3)

    def test_the_gradient_of_x_is_the_rotation_back(self):
        for dtype, tolerance in zip(DTYPES, (1e-6, 4e-3, 4e-2)):
            x = jnp.asarray(numbers((2, 5, 3, 16), dtype))
            given = jnp.asarray(numbers((2, 5, 3, 16), dtype, seed=9))
            _, back = jax.vjp(lambda x: self.turn(x, self.cos, self.sin), x)
            words = {"pairing": "half", "layout": "bthd", "first": 2, "direction": "backward"}
            self.near(back(given)[0], rotary.jax.rotate(given, self.cos, self.sin, **words), tolerance)

    def test_finite_differences(self):
        from jax.test_util import check_grads

        for pairing in PAIRINGS:
            turn = lambda x, c, s: rotary.jax.rotate(x, c, s, pairing=pairing, layout="bthd")  # noqa: B023, E731
            check_grads(turn, (self.x, self.cos, self.sin), 3, ["fwd", "rev"], rtol=0.05, atol=0.05)

    def test_rows_that_are_not_differentiated_cost_nothing(self):
        turn = lambda x: self.turn(x, self.cos, self.sin)  # noqa: E731
        text = str(jax.make_jaxpr(lambda x: jax.vjp(turn, x)[1](x))(self.x))
        self.assertEqual(text.count(" mul "), 8)  # four products forward and four backward

    def test_bfloat16_rows_get_gradients_of_their_type(self):
        c, s = self.cos.astype(jnp.bfloat16), self.sin.astype(jnp.bfloat16)
        grads = jax.grad(self.loss(self.turn), (1, 2))(self.x, c, s)
        self.assertEqual([g.dtype for g in grads], [jnp.bfloat16] * 2)
        wide = jax.grad(self.loss(self.turn), (1, 2))(self.x, c.astype(jnp.float32), s.astype(jnp.float32))
        self.near([g.astype(jnp.float32) for g in grads], wide, 0.05)

    def test_scan_and_remat(self):
        step = lambda x, _: (self.turn(x, self.cos, self.sin), None)  # noqa: E731
        y, _ = jax.lax.scan(step, self.x, None, length=3)
        expected = self.x
        for _ in range(3):
            expected = self.turn(expected, self.cos, self.sin)
        self.same(y, expected)
        again = lambda f: jax.grad(lambda x: jax.checkpoint(f)(x, self.cos, self.sin))(self.x)  # noqa: E731
        self.near(again(self.loss(self.turn)), again(self.loss(self.plain)))


class Transformations(Case):
    def test_vmap_without_a_loop(self):
        many = jnp.asarray(numbers((4, 2, 5, 3, 16)))
        rows_ = [jnp.asarray(numbers((4, 5, 6), seed=seed)) for seed in (1, 2)]
        for dims in ((0, None, None), (1, None, None), (None, 0, 0), (0, 0, 0), (3, 0, None), (None, 0, None)):
            with self.subTest(dims=dims):
                given = [v[0] if d is None else jnp.moveaxis(v, 0, d) for v, d in zip((many, *rows_), dims)]
                mapped = jax.vmap(self.turn, dims)
                y = jax.jit(mapped)(*given)
                for i in range(4):
                    one = [v if d is None else jnp.take(v, i, d) for v, d in zip(given, dims)]
                    self.same(y[i], self.turn(*one))
                text = str(jax.make_jaxpr(mapped)(*given))
                self.assertNotIn("scan", text)
                self.assertNotIn("while", text)
                square = lambda f: lambda *a: (jax.vmap(f, dims)(*a) ** 2).sum()  # noqa: B023, E731
                self.near(*(jax.grad(square(f), (0, 1, 2))(*given) for f in (self.turn, self.plain)), 1e-4)

    def test_export(self):
        from jax import export

        b, t = export.symbolic_shape("b, t")
        shapes = [(b, t, 3, 16), (t, 6), (t, 6)]
        given = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
        expected = self.turn(self.x, self.cos, self.sin)
        for words in ({}, {"platforms": ("cpu", "tpu")}):
            made = export.export(jax.jit(self.turn), **words)(*given)
            if importlib.util.find_spec("flatbuffers"):
                made = export.deserialize(made.serialize())
            y = made.call(self.x, self.cos, self.sin)
            self.same(y, expected)

    def test_without_jit(self):
        rope = rotary.Rope(head_dim=12, pairing="half")
        expected = np.asarray(self.turn(self.x, *rotary.jax.table(rope, range(5))))
        with jax.disable_jit():
            rows_ = jax.vmap(lambda p: rotary.jax.table(rope, p))(jnp.arange(5))
            y = jax.jit(self.turn)(self.x, rows_[0][:, 0], rows_[1][:, 0])
        self.same(y, expected)

    def test_shard_map(self):
        try:
            from jax import shard_map
        except ImportError:
            from jax.experimental.shard_map import shard_map
        from jax.sharding import Mesh
        from jax.sharding import PartitionSpec as P

        self.assertEqual(len(jax.devices()), 2)
        mesh = Mesh(np.array(jax.devices()), ("d",))
        checked = {} if hasattr(jax, "shard_map") else {"check_rep": False}
        for parts in ((P("d"), P(), P()), (P(None, None, "d"), P(), P())):
            x = self.x if parts[0] == P("d") else self.x[:, :, :2]
            split = jax.jit(shard_map(self.turn, mesh=mesh, in_specs=parts, out_specs=parts[0], **checked))
            y = split(x, self.cos, self.sin)
            self.same(y, self.turn(x, self.cos, self.sin))
            square = lambda f: lambda *a: (f(*a) ** 3).sum()  # noqa: E731
            grads = [jax.grad(square(f), (0, 1, 2))(x, self.cos, self.sin) for f in (split, self.plain)]
            self.near(*grads, 1e-4)

    def test_sharded_arrays_without_shard_map_are_right(self):
        from jax.sharding import Mesh, NamedSharding
        from jax.sharding import PartitionSpec as P

        mesh = Mesh(np.array(jax.devices()), ("d",))
        x = jax.device_put(self.x, NamedSharding(mesh, P("d")))
        expected = self.turn(self.x, self.cos, self.sin)
        self.same(jax.jit(self.turn)(x, self.cos, self.sin), expected)
