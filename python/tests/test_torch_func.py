"""Gradients of every order, torch.func, and torch's own checks of ops."""

import pathlib
import unittest

import rotary
from support import run_python
from torch_support import needs_torch, table_of, torch, turned

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

    def test_vmap_of_rows_and_of_the_ops(self):
        """The layout's dimensions do not see the mapped one, in the rows of each batch and head too."""
        rows, words = torch.randn(2, 4, 2, 5, 1, 6), ("half", "bthd")  # cos and sin, of each mapped one
        q, k = torch.randn(4, 2, 5, 3, 16), torch.randn(2, 5, 1, 16)

        def rotate(q, k, cos, sin):
            return rotary.rotate_qk(q, k, rotary.from_rows(cos, sin, pairing="half"), layout="bthd")

        one = lambda q, cos, sin: torch.ops.rotary.rotate(q, cos, sin, *words)  # noqa: E731
        alone = [rotate(q[at], k, *rows[:, at]) for at in range(4)]
        for turn in (rotate, lambda *given: torch.ops.rotary.rotate_qk(*given, *words)):
            got = torch.func.vmap(turn, in_dims=(0, None, 0, 0))(q, k, *rows)
            self.assertTrue(all(map(torch.equal, got, map(torch.stack, zip(*alone)))))
        self.assertTrue(torch.equal(torch.func.vmap(one)(q, *rows), got[0]))

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
