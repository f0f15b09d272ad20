"""Gradients of every order, torch.func, and torch's own checks of ops."""

import functools
import pathlib
import unittest

import rotary
from support import run_python
from torch_support import PAIRINGS, eager, needs_torch, rows_of, table_of, torch, turned

if torch is not None:
    from torch.autograd import gradcheck, gradgradcheck


def of_rows(pairing, layout, doubled="", **words):
    def rotate(x, cos, sin):
        table_from = functools.partial(rotary.from_doubled, doubled=doubled) if doubled else rotary.from_rows
        return rotary.rotate(x, table_from(cos, sin, pairing=pairing), layout=layout, **words)

    return rotate


def wide(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@needs_torch
class Gradients(unittest.TestCase):
    def test_finite_differences(self):
        """Gradients of one tensor, of q and k and of a packed tensor: forward, backward, batched, and second ones."""

        def two(q, k, cos, sin, scale=None):
            table = rotary.from_rows(cos, sin, pairing="interleaved_to_half")
            return rotary.rotate_qk(q, k, table, layout="bthd", query_scale=scale)

        def packed(qkv, cos, sin):
            return torch.ops.rotary.rotate(qkv, cos, sin, "half", "bthd", 0, False, 1)

        for rotate, *given in (
            *((of_rows(pairing, "bthd"), (2, 3, 2, 6), *[(3, 2)] * 2) for pairing in PAIRINGS),
            *((of_rows(pairing, "tbhd", direction="backward"), (3, 2, 1, 6), *[(2, 3, 2)] * 2) for pairing in PAIRINGS),
            (of_rows("half", "htd", first=3), (2, 3, 8), *[(1, 3, 2)] * 2),
            (of_rows("half", "bhd"), (2, 2, 4), *[(1, 2)] * 2),
            (two, (1, 3, 2, 4), (1, 3, 1, 6), *[(3, 2)] * 2),
            (two, (1, 3, 2, 6), (1, 3, 1, 6), *[(3, 2)] * 2, (1, 3)),
            (packed, (1, 3, 4, 4), *[(3, 2)] * 2),
        ):
            with self.subTest(given=given):
                inputs = [wide(*shape) for shape in given]
                self.assertTrue(gradcheck(rotate, inputs, check_forward_ad=True, check_batched_grad=len(inputs) < 5))
                self.assertTrue(gradgradcheck(rotate, inputs))

    def test_doubled_rows_have_the_gradient_of_single_ones(self):
        for doubled in ("halves", "neighbours"):
            c, s = (one.requires_grad_() for one in rows_of(table_of("interleaved"), torch.float64))
            x = wide(2, 5, 3, 16)

            def twice(one):
                return torch.cat((one, one), -1) if doubled == "halves" else one.repeat_interleave(2, -1)

            f = of_rows("interleaved", "bthd", doubled)
            got = torch.autograd.grad(f(x, twice(c), twice(s)).pow(3).sum(), (x, c, s))
            expected = torch.autograd.grad(of_rows("interleaved", "bthd")(x, c, s).pow(3).sum(), (x, c, s))
            self.assertTrue(all(map(torch.equal, got, expected)))

    def test_gradient_of_one_of_two(self):
        table = table_of()
        q, k = torch.randn(1, 5, 2, 16, requires_grad=True), torch.randn(1, 5, 1, 16, requires_grad=True)
        got = rotary.rotate_qk(q, k, table, layout="bthd")
        grad = torch.randn_like(got[1])
        d_q, d_k = torch.autograd.grad(got[1], (q, k), grad, allow_unused=True)
        self.assertIsNone(d_q)
        self.assertTrue(torch.equal(d_k, rotary.rotate(grad, table, layout="bthd", direction="backward")))


@needs_torch
class Func(unittest.TestCase):
    def test_grad_and_vmap(self):
        table = table_of("interleaved")
        f = lambda x: rotary.rotate(x, table, layout="thd").pow(3).sum()  # noqa: E731
        g = lambda x: turned(x, table, "thd").pow(3).sum()  # noqa: E731
        x = torch.randn(4, 5, 3, 16)
        self.assertTrue(torch.equal(torch.func.grad(f)(x[0]), torch.func.grad(g)(x[0])))
        each = torch.stack([torch.func.grad(g)(one) for one in x])
        self.assertTrue(torch.equal(torch.func.vmap(torch.func.grad(f))(x), each))
        self.assertTrue(torch.equal(torch.func.grad(lambda x: torch.func.vmap(f)(x).sum())(x), each))
        got, expected = (torch.func.jvp(h, (x[0],), (x[1],)) for h in (f, g))
        torch.testing.assert_close(got, expected)
        small = x[0, :, :1].double()
        torch.testing.assert_close(torch.func.hessian(f)(small), torch.func.hessian(g)(small))

    def test_vmap_of_every_argument(self):
        x, k = torch.randn(4, 2, 5, 3, 16), torch.randn(4, 2, 5, 1, 16)
        rows = torch.randn(2, 4, 2, 5, 6)  # cos and sin, of each mapped one, of each batch
        for layout, at in (("bthd", 0), ("tbhd", 1), ("bhtd", 2), ("thd", 0)):
            order = ["bthd".index(letter) for letter in layout]
            picked = (x, k) if "b" in layout else (x[:, 0], k[:, 0])
            if "b" in layout:
                picked = [one.permute(0, *(1 + place for place in order)) for one in picked]
            for shape in ("one", "each batch") if "b" in layout else ("one",):
                cos, sin = (one if shape == "each batch" else one[:, 0] for one in rows)
                for dims in ((0, 0, 0, 0), (0, 0, None, None), (0, None, 0, 0), (None, None, 0, None), (2, 0, 0, 0)):
                    given = [one if dim is not None else one[1] for one, dim in zip((*picked, cos, sin), dims)]
                    given[0] = given[0].movedim(0, 2) if dims[0] == 2 else given[0]

                    def rotate(q, k, cos, sin):
                        table = rotary.from_rows(cos, sin, pairing="half")
                        return rotary.rotate_qk(q, k, table, layout=layout)

                    def formula(q, k, cos, sin):
                        return tuple(eager(one, cos, sin, "half", layout) for one in (q, k))

                    with self.subTest(layout=layout, rows=shape, dims=dims):
                        expected = torch.func.vmap(formula, in_dims=dims)(*given)
                        got = torch.func.vmap(rotate, in_dims=dims)(*given)
                        self.assertTrue(all(map(torch.equal, got, expected)))

    def test_nested_vmap(self):
        x, table = torch.randn(2, 3, 4, 5, 16), table_of()
        f = lambda x: rotary.rotate(x, table, layout="td")  # noqa: E731
        got = torch.func.vmap(torch.func.vmap(torch.func.vmap(f)))(x)
        self.assertTrue(torch.equal(got, turned(x.flatten(0, 2), table, "btd").view_as(x)))
        self.assertEqual(torch.func.vmap(f)(x[0, 0, :0]).shape, (0, 5, 16))


@needs_torch
class Ops(unittest.TestCase):
    """The ops, beside torch/tests/test_op.py, which serves librotary_torch.so and the package."""

    def test_as_the_library(self):
        test = pathlib.Path(__file__).parents[2] / "torch/tests/test_op.py"
        if test.exists():  # not in a source distribution
            self.assertIn("tests passed", run_python(str(test), "package"))
