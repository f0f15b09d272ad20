"""Tensors whose memory does not hold their values, and writes into tensors."""

import contextlib
import sys
import unittest

import rotary
from support import run_python
from torch_support import needs_torch, refused, rope_of, rows_of, straight_calls, table_of, torch, turned

if torch is not None:
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
        for context, records in ((contextlib.nullcontext(), False), (torch.autocast("cpu", torch.bfloat16), False),
                                 (torch.no_grad(), True), (torch.inference_mode(), True)):  # fmt: skip
            for x in (torch.nn.Parameter(self.x, requires_grad=records), self.x.clone().requires_grad_(records)):
                with context, straight_calls() as calls:
                    y = rotary.rotate(x, self.table, layout="bthd")
                self.assertTrue(torch.equal(y, self.expected) and not y.requires_grad)
                self.assertEqual(calls, ["rotate"])

    def test_a_gradient(self):
        self.assertTrue(self.rotate(self.x.clone().requires_grad_()).requires_grad)
        c, s = rows_of(self.table)
        table = rotary.from_rows(c, s, pairing="half")
        for records in (False, True):  # also after the table was found plain
            s.requires_grad_(records)
            self.assertEqual(rotary.rotate(self.x, table, layout="bthd").requires_grad, records)

    def test_negative_and_conjugate_views(self):
        for negative in (torch._neg_view(-self.x), torch.complex(torch.zeros_like(self.x), -self.x).conj().imag):
            self.assertTrue(negative.is_neg() and torch.equal(self.rotate(negative), self.expected))
        c, s = rows_of(self.table)
        table = rotary.from_rows(torch._neg_view(-c), s, pairing="half")
        self.assertTrue(torch.equal(rotary.rotate(self.x, table, layout="bthd"), self.expected))

    def test_zeros_without_memory(self):
        zeros = torch._efficientzerotensor(self.x.shape)
        self.assertTrue(torch.equal(self.rotate(zeros), torch.zeros_like(self.x)))

    def test_modes(self):
        class Named(torch.overrides.TorchFunctionMode):
            names = []

            def __torch_function__(self, func, types, args=(), kwargs=None):
                self.names.append(str(func))
                return func(*args, **(kwargs or {}))

        for mode in (Seen(), Named()):
            with mode:
                self.assertTrue(torch.equal(self.rotate(self.x), self.expected))
            self.assertTrue(any("rotary.rotate" in name for name in mode.names))

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
        with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
            fake = mode.from_tensor(self.x)
            y = self.rotate(fake)
        self.assertEqual((type(y), y.shape, y.stride()), (type(fake), self.x.shape, self.x.stride()))

    def test_levels_of_functorch(self):
        for level in (torch.func.vmap(self.rotate), lambda x: torch.func.jvp(self.rotate, (x[0],), (x[0],))):
            self.assertTrue(torch.equal(level(torch.stack((self.x, self.x)))[0], self.expected))
        self.assertTrue(torch.equal(torch.func.functionalize(self.rotate)(self.x), self.expected))

    def test_tracers_and_profilers(self):
        traced = torch.jit.trace(lambda x: rotary.rotate(x, self.table, layout="bthd"), (torch.zeros_like(self.x),))
        self.assertTrue(torch.equal(traced(self.x), self.expected))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            self.rotate(self.x)
        self.assertTrue(any("rotary::rotate" in event.key for event in profile.key_averages()))

    def test_autograd_is_notified_of_writes(self):
        w = torch.randn(16, requires_grad=True)
        words = {"table": self.table, "layout": "bthd"}
        for write in (
            lambda x: rotary.rotate_(x, **words),
            lambda x: rotary.rotate(self.x, **words, out=x),
            lambda x: rotary.rotate_qk_(x, self.x.clone(), **words),
            lambda x: rotary.rotate_qk(self.x, self.x, **words, out=(self.x.clone(), x)),
            lambda x: rotary.rotate_(x[:, :, :2], **words),
        ):
            x = self.x.clone()
            y = (x * w).sum()  # keeps x
            with straight_calls() as calls:
                write(x)
            self.assertTrue(calls)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                y.backward()

    def test_writing_where_a_gradient_is_recorded(self):
        leaf = self.x.clone().requires_grad_()
        for function, *x_out in ((rotary.rotate_, leaf), (rotary.rotate, leaf, torch.empty_like(self.x)),
                                 (rotary.rotate, self.x, leaf)):  # fmt: skip
            words = dict(zip(("x", "out"), x_out))
            refused(self, "TORCH", lambda: function(table=self.table, layout="bthd", **words))  # noqa: B023
        x = leaf * 1.0
        y = rotary.rotate_(x, self.table, layout="bthd")
        self.assertIs(y, x)
        grad = torch.randn_like(y)
        y.backward(grad)
        self.assertTrue(torch.equal(leaf.grad, rotary.rotate(grad, self.table, layout="bthd", direction="backward")))

    def test_a_refusal_writes_nothing(self):
        words, leaf = {"table": self.table, "layout": "bthd"}, self.x.clone().requires_grad_()
        for x in (self.x, self.x.double()):
            q, out = x.clone(), torch.zeros_like(x)
            for k in (leaf, leaf[:]):
                refused(self, "TORCH", lambda: rotary.rotate_qk_(q, k, **words))  # noqa: B023
            refused(self, "SHAPE", lambda: rotary.rotate_qk(x, x, **words, out=(out, out[:1])))  # noqa: B023
            for turn, *given in ((rotary.rotate, x, out.numpy()), (rotary.rotate, self.x.numpy(), out),
                                 *((rotary.rotate_qk, x, pair) for pair in ((out, None), (None, out)))):  # fmt: skip
                both = {"k": x} if turn is rotary.rotate_qk else {}
                with self.assertRaisesRegex(TypeError, "out must be"):
                    turn(given[0], **both, **words, out=given[1])
            self.assertTrue(torch.equal(q, x) and not out.any())

    def test_refusals(self):
        heads = torch.zeros(2, 5, 4, 16)
        for one in (heads, heads.double(), torch.zeros(2, 5, 4, 32)[..., ::2]):
            words = {"table": self.table, "layout": "bthd"}
            for q, k in ((one, one), (one[:, :, :3], one[:, :, 1:])):
                refused(self, "ALIAS", lambda: rotary.rotate_qk_(q, k, **words))
            rotary.rotate_qk_(one[:, :, :2], one[:, :, 2:], **words)
        for q, k in ((heads, heads.numpy()), (heads.numpy(), heads)):
            with self.assertRaises(TypeError):
                rotary.rotate_qk(q, k, **words)
        jagged = torch.nested.nested_tensor([self.x[0], self.x[0, :3]], layout=torch.jagged)
        module, sparse = rotary.RotaryEmbedding(rope_of(), layout="bthd"), heads.to_sparse()
        for turn, *given in ((module, jagged), (rotary.rotate_qk, heads, sparse), (rotary.rotate, sparse)):
            how = {} if turn is module else words
            self.assertIn("must be dense", refused(self, "TORCH", lambda: turn(*given, **how)))  # noqa: B023
        rows = rows_of(self.table)
        refused(self, "TORCH", lambda: rotary.from_rows(*(one.to_sparse() for one in rows), pairing="half"))
        table = rotary.from_rows(*rows, pairing="half")
        refused(self, "DEVICE", lambda: rotary.rotate(self.x.to("meta"), table, layout="bthd"))

    def test_positions_of_another_device_are_copied(self):
        class Elsewhere(torch.Tensor):
            """A tensor that says it is not on the CPU, since there is no other device here."""

            is_cpu = False

            def cpu(self):
                return self.as_subclass(torch.Tensor)

        self.assertEqual(rotary.Table(rope_of(), torch.arange(5).as_subclass(Elsewhere)), self.table)
        with self.assertRaises(NotImplementedError):
            rotary.Table(rope_of(), torch.arange(5, device="meta"))


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
assert before < threads() <= before + 2, "three that were asked for"
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
        """Selective checkpointing sees the op as the mode in test_modes does."""
        table, x = table_of(), torch.randn(2, 5, 3, 16, requires_grad=True)
        body = lambda x: rotary.rotate(x * 2, table, layout="bthd").sin()  # noqa: E731
        expected = torch.autograd.grad(body(x).sum(), x)[0]
        for reentrant in (True, False):
            x.grad = None
            checkpoint(body, x, use_reentrant=reentrant).sum().backward()
            self.assertTrue(torch.equal(x.grad, expected))
