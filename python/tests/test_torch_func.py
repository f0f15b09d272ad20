"""Gradients of every order, torch.func, and torch's own checks of ops."""

import itertools
import pathlib
import unittest

import rotary
from support import run_python
from torch_support import needs_torch, rows_of, table_of, torch, turned

if torch is not None:
    from torch.autograd import gradcheck, gradgradcheck


def wide(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@needs_torch
class Gradients(unittest.TestCase):
    def test_finite_differences(self):
        """Gradients of q, k, cos, sin and the factors of queries. torch/tests/test_op.py has those of one tensor."""

        def two(q, k, cos, sin, scale=None):
            table = rotary.from_rows(cos, sin, pairing="interleaved_to_half")
            return rotary.rotate_qk(q, k, table, layout="bthd", query_scale=scale)

        for given in (
            ((1, 3, 2, 4), (1, 3, 1, 6), *[(3, 2)] * 2),
            ((1, 3, 2, 6), (1, 3, 1, 6), *[(3, 2)] * 2, (1, 3)),
        ):
            inputs = [wide(*shape) for shape in given]
            self.assertTrue(gradcheck(two, inputs, check_forward_ad=True, check_batched_grad=len(inputs) < 5))
            self.assertTrue(gradgradcheck(two, inputs))

    def test_doubled_rows_have_the_gradient_of_single_ones(self):
        x, *rows = wide(2, 5, 3, 16), *(one.requires_grad_() for one in rows_of(table_of(), torch.float64))
        halves, sides = [torch.cat((one, one), -1) for one in rows], [one.repeat_interleave(2, -1) for one in rows]
        tables = [rotary.from_doubled(*halves, pairing="interleaved", doubled="halves"),
                  rotary.from_doubled(*sides, pairing="interleaved", doubled="neighbours"),
                  rotary.from_rows(*rows, pairing="interleaved")]  # fmt: skip
        losses = [rotary.rotate(x, table, layout="bthd").pow(3).sum() for table in tables]
        *got, expected = [torch.autograd.grad(loss, (x, *rows), retain_graph=True) for loss in losses]
        for one in got:
            self.assertTrue(all(map(torch.equal, one, expected)))

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
        """The gradient of sum(y^3 / 3) is y^2 rotated back; its Hessian times v is 2 y * rotated v, rotated back."""
        table, x, words = table_of("interleaved"), torch.randn(4, 5, 3, 16), {"layout": "thd"}
        f = lambda x: rotary.rotate(x, table, **words).pow(3).sum() / 3  # noqa: E731
        y, back = turned(x[0], table, "thd"), {**words, "direction": "backward"}
        torch.testing.assert_close(torch.func.grad(f)(x[0]), rotary.rotate(y**2, table, **back))
        each = torch.stack([torch.func.grad(f)(one) for one in x])
        self.assertTrue(torch.equal(torch.func.vmap(torch.func.grad(f))(x), each))
        self.assertTrue(torch.equal(torch.func.grad(lambda x: torch.func.vmap(f)(x).sum())(x), each))
        torch.testing.assert_close(torch.func.jvp(f, (x[0],), (x[1],))[1], (each[0] * x[1]).sum())
        product = torch.tensordot(torch.func.hessian(f)(x[0]), x[1], 3)
        expected = rotary.rotate(2 * y * turned(x[1], table, "thd"), table, **back)
        torch.testing.assert_close(product, expected, rtol=1e-4, atol=1e-4)

    def test_vmap_of_every_argument(self):
        rows = torch.randn(2, 4, 2, 5, 6)  # cos and sin, of each mapped one, of each batch
        every = (0, 0, 0, 0), (0, 0, None, None), (0, None, 0, 0), (None, None, 0, None), (2, 0, 0, 0)
        for layout, of_batch, dims in itertools.product(("bthd", "tbhd", "bhtd", "thd"), (True, False), every):
            q, k = (torch.randn(4, *({"b": 2, "t": 5, "h": heads, "d": 16}[letter] for letter in layout))
                    for heads in (3, 1))  # fmt: skip
            inputs = q, k, *(rows if of_batch and "b" in layout else rows[:, :, 0])
            given = [one[1] if dim is None else one.movedim(0, dim) for one, dim in zip(inputs, dims)]

            def rotate(q, k, cos, sin):
                return rotary.rotate_qk(q, k, rotary.from_rows(cos, sin, pairing="half"), layout=layout)  # noqa: B023

            with self.subTest(layout=layout, of_batch=of_batch, dims=dims):
                got = torch.func.vmap(rotate, in_dims=dims)(*given)
                alone = [rotate(*(one[1 if dim is None else at] for one, dim in zip(inputs, dims))) for at in range(4)]
                self.assertTrue(all(map(torch.equal, got, map(torch.stack, zip(*alone)))))

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
