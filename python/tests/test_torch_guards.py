"""Tensors whose memory does not hold their values, and writes into tensors."""

import functools
import sys
import unittest

import rotary
from support import run_python
from torch_support import needs_torch, refused, rows_of, straight_calls, table_of, torch, turned

if torch is not None:
    import torch.autograd.forward_ad as forward_ad
    from torch.utils.checkpoint import checkpoint
    from torch_support import Seen


@needs_torch
class Guards(unittest.TestCase):
    """A call under a mode, or with a tensor whose memory does not hold its values, goes to the op, and is right."""

    def setUp(self):
        self.table = table_of()
        self.x = torch.randn(2, 5, 3, 16)
        self.expected = turned(self.x, self.table, "bthd")

    def rotate(self, x):
        with straight_calls() as calls:
            y = rotary.rotate(x, self.table, layout="bthd")
        self.assertEqual(calls, [])
        return y

    def test_plain_tensors_go_straight(self):
        for x in (self.x, torch.nn.Parameter(self.x, requires_grad=False)):
            with straight_calls() as calls:
                self.assertTrue(torch.equal(rotary.rotate(x, self.table, layout="bthd"), self.expected))
            self.assertEqual(calls, ["rotate"])
        for context in (torch.no_grad(), torch.inference_mode(), torch.autocast("cpu", torch.bfloat16)):
            with context, straight_calls() as calls:
                x = torch.nn.Parameter(self.x, requires_grad=not isinstance(context, torch.autocast))
                y = rotary.rotate(x, self.table, layout="bthd")
                self.assertTrue(torch.equal(y, self.expected) and not y.requires_grad)
            self.assertEqual(calls, ["rotate"])

    def test_a_gradient(self):
        self.assertTrue(self.rotate(self.x.clone().requires_grad_()).requires_grad)
        c, s = rows_of(self.table)
        table = rotary.from_rows(c.requires_grad_(), s, pairing="half")
        self.assertTrue(rotary.rotate(self.x, table, layout="bthd").requires_grad)
        table = rotary.from_rows(c.detach(), s, pairing="half")
        self.assertFalse(rotary.rotate(self.x, table, layout="bthd").requires_grad)
        s.requires_grad_()  # after it was found plain
        self.assertTrue(rotary.rotate(self.x, table, layout="bthd").requires_grad)

    def test_negative_and_conjugate_views(self):
        negative = torch._neg_view(-self.x)
        self.assertTrue(negative.is_neg() and negative.is_contiguous())
        self.assertTrue(torch.equal(self.rotate(negative), self.expected))
        imaginary = torch.complex(torch.zeros_like(self.x), -self.x).conj().imag
        self.assertTrue(imaginary.is_neg())
        self.assertTrue(torch.equal(self.rotate(imaginary), self.expected))

    def test_zeros_without_memory(self):
        zeros = torch._efficientzerotensor(self.x.shape)
        self.assertTrue(torch.equal(self.rotate(zeros), torch.zeros_like(self.x)))

    def test_dispatch_modes(self):
        with Seen() as seen:
            self.assertTrue(torch.equal(self.rotate(self.x), self.expected))
        self.assertEqual(seen.names, ["rotary.rotate.default"])

    def test_function_modes(self):
        class Named(torch.overrides.TorchFunctionMode):
            names = []

            def __torch_function__(self, func, types, args=(), kwargs=None):
                self.names.append(str(func))
                return func(*args, **(kwargs or {}))

        with Named():
            self.assertTrue(torch.equal(self.rotate(self.x), self.expected))
        self.assertTrue(any("rotary.rotate" in name for name in Named.names))

    def test_subclasses(self):
        class Mine(torch.Tensor):
            names = []

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                cls.names.append(str(func))
                return super().__torch_function__(func, types, args, kwargs or {})

        y = self.rotate(self.x.as_subclass(Mine))
        self.assertTrue(torch.equal(y.as_subclass(torch.Tensor), self.expected))
        self.assertIs(type(y), Mine)
        self.assertTrue(any("rotary.rotate" in name for name in Mine.names))

    def test_meta_and_fake(self):
        y = self.rotate(self.x.to("meta"))
        self.assertEqual((y.device.type, y.shape), ("meta", self.x.shape))
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode() as mode:
            fake = mode.from_tensor(self.x)
            y = self.rotate(fake)
        self.assertEqual((type(y), y.shape, y.stride()), (type(fake), self.x.shape, self.x.stride()))

    def test_levels_of_functorch(self):
        y = torch.func.vmap(self.rotate)(torch.stack((self.x, 2 * self.x)))
        self.assertTrue(torch.equal(y[0], self.expected))
        self.assertTrue(torch.equal(torch.func.functionalize(self.rotate)(self.x), self.expected))

    def test_forward_mode(self):
        tangent = torch.randn_like(self.x)
        with forward_ad.dual_level():
            y = self.rotate(forward_ad.make_dual(self.x, tangent))
            primal, tangent_of_y = forward_ad.unpack_dual(y)
        self.assertTrue(torch.equal(primal, self.expected))
        self.assertTrue(torch.equal(tangent_of_y, turned(tangent, self.table, "bthd")))

    def test_tracers_and_profilers(self):
        traced = torch.jit.trace(lambda x: rotary.rotate(x, self.table, layout="bthd"), (torch.zeros_like(self.x),))
        self.assertTrue(torch.equal(traced(self.x), self.expected))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            self.rotate(self.x)
        self.assertTrue(any("rotary::rotate" in event.key for event in profile.key_averages()))

    def test_autograd_is_notified_of_writes(self):
        w = torch.randn(16, requires_grad=True)
        for write in (
            lambda x: rotary.rotate_(x, self.table, layout="bthd"),
            lambda x: rotary.rotate(self.x, self.table, layout="bthd", out=x),
            lambda x: rotary.rotate_qk_(x, self.x.clone(), self.table, layout="bthd"),
            lambda x: rotary.rotate_qk(self.x, self.x, self.table, layout="bthd", out=(self.x.clone(), x)),
            lambda x: rotary.rotate_(x[:, :, :2], self.table, layout="bthd"),
        ):
            x = self.x.clone()
            y = (x * w).sum()  # keeps x
            with straight_calls() as calls:
                write(x)
            self.assertEqual(len(calls), 1)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.backward()

    def test_writing_where_a_gradient_is_recorded(self):
        leaf = self.x.clone().requires_grad_()
        for wrong in (
            lambda: rotary.rotate_(leaf, self.table, layout="bthd"),
            lambda: rotary.rotate(leaf, self.table, layout="bthd", out=torch.empty_like(self.x)),
            lambda: rotary.rotate(self.x, self.table, layout="bthd", out=leaf),
        ):
            refused(self, "TORCH", wrong)
        x = leaf * 1.0
        y = rotary.rotate_(x, self.table, layout="bthd")
        self.assertIs(y, x)
        grad = torch.randn_like(y)
        y.backward(grad)
        self.assertTrue(torch.equal(leaf.grad, rotary.rotate(grad, self.table, layout="bthd", direction="backward")))


THREADS = """
import os, rotary, torch
def threads():
    return len(os.listdir("/proc/self/task"))
torch.set_num_threads(1)
table, x = rotary.Table(rotary.Rope(head_dim=128, pairing="half"), range(16)), torch.randn(16, 64, 128)
expected = rotary.rotate(x, table, layout="thd")
before = threads()
rotary.rotate(x, table, layout="thd")
assert threads() == before, "torch's one thread"
rotary.set_num_threads(3)
assert torch.equal(rotary.rotate(x, table, layout="thd"), expected)
assert threads() == before + 2, "three that were asked for"
rotary.set_num_threads(0)
torch.set_num_threads(4)
assert torch.equal(rotary.rotate(x, table, layout="thd"), expected)
assert threads() >= before + 3, "torch's four"
"""


@needs_torch
@unittest.skipUnless(sys.platform == "linux", "threads are counted in /proc")
class Threads(unittest.TestCase):
    def test_as_many_as_torch_uses(self):
        run_python("-c", THREADS)


@needs_torch
class Checkpoints(unittest.TestCase):
    def test_activation_checkpointing(self):
        table, x = table_of(), torch.randn(2, 5, 3, 16, requires_grad=True)

        def body(x):
            return rotary.rotate(x * 2, table, layout="bthd").sin()

        expected = torch.autograd.grad(body(x).sum(), x)[0]
        y = checkpoint(body, x, use_reentrant=False)
        self.assertTrue(torch.equal(torch.autograd.grad(y.sum(), x)[0], expected))
        checkpoint(body, x, use_reentrant=True).sum().backward()
        self.assertTrue(torch.equal(x.grad, expected))

    def test_selective_checkpointing_sees_the_op(self):
        try:
            from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
        except ImportError:
            self.skipTest("this torch has no selective checkpoints")

        asked = []

        def policy(context, op, *args, **kwargs):
            if "rotary." in str(op):
                asked.append(str(op))
                return CheckpointPolicy.MUST_SAVE
            return CheckpointPolicy.PREFER_RECOMPUTE

        table, x = table_of(), torch.randn(2, 5, 3, 16, requires_grad=True)

        def body(x):
            return rotary.rotate(x * 2, table, layout="bthd").sin()

        expected = torch.autograd.grad(body(x).sum(), x)[0]
        contexts = functools.partial(create_selective_checkpoint_contexts, policy)
        y = checkpoint(body, x, use_reentrant=False, context_fn=contexts)
        self.assertTrue(torch.equal(torch.autograd.grad(y.sum(), x)[0], expected))
        self.assertTrue(asked)
