"""rotate and its family on torch's tensors: strides, rows that are tensors, errors."""

import unittest

import rotary
from torch_support import PAIRINGS, eager, needs_torch, refused, rows_of, table_of, torch, turned


@needs_torch
class Values(unittest.TestCase):
    """The values. test_rotate.py has every layout, type and pairing."""

    def test_strides(self):
        table, whole = table_of(rotary_dim=8), torch.randn(2, 10, 6, 32)
        views = {
            "inner stride 2": whole[:, :5, :3, ::2],
            "expanded": whole[:1, :5, :1, :16].expand(2, 5, 3, 16),
            "empty": whole[:0, :5, :3, :16],
            "channels last": torch.randn(2, 5, 3, 16).contiguous(memory_format=torch.channels_last),
        }
        for name, x in views.items():
            with self.subTest(name):
                expected = turned(x, table, "bthd")
                self.assertTrue(torch.equal(rotary.rotate(x, table, layout="bthd"), expected))
                y = rotary.rotate_qk(x.detach().requires_grad_(), x, table, layout="bthd")
                self.assertTrue(torch.equal(y[0], expected) and torch.equal(y[1], expected))
                wide = rotary.rotate(x.double(), table, layout="bthd")
                self.assertTrue(torch.equal(wide, turned(x.double(), table, "bthd")))
        inner = whole[:, :5, :3, ::2]
        expected = turned(inner, table, "bthd")
        self.assertTrue(torch.equal(rotary.rotate_(inner, table, layout="bthd"), expected))
        self.assertTrue(torch.equal(whole[:, :5, :3, ::2], expected))

    def test_rows_that_are_tensors(self):
        table, x = table_of(), torch.randn(2, 5, 3, 16)
        c, s = rows_of(table)
        expected = eager(x, c, s, "half", "bthd")
        wide = torch.zeros(5, 12)
        wide[:, ::2] = c
        given = {
            "plain": (c, s),
            "columns of stride 2": (wide[:, ::2], s),
            "transposed": (c.t().contiguous().t(), s.t().contiguous().t()),
            "expanded": (c.expand(2, 5, 6), s.expand(2, 5, 6)),
            "float64": (c.double(), s.double()),
            "neg view": (torch._neg_view(-c), s),
        }
        for name, rows in given.items():
            with self.subTest(name):
                table = rotary.from_rows(*rows, pairing="half")
                self.assertTrue(torch.equal(rotary.rotate(x, table, layout="bthd"), expected))
                y = rotary.rotate(x.clone().requires_grad_(), table, layout="bthd")
                self.assertTrue(torch.equal(y, expected))
                self.assertTrue(torch.equal(rotary.rotate_(x.clone(), table, layout="bthd"), expected))

    def test_rows_that_are_the_tensor_itself(self):
        memory = torch.randn(5, 16)
        table = rotary.from_rows(memory[:, :8], memory[:, 8:], pairing="half")
        expected = eager(memory, memory[:, :8].clone(), memory[:, 8:].clone(), "half", "td")
        self.assertTrue(torch.equal(rotary.rotate_(memory, table, layout="td"), expected))


@needs_torch
class Errors(unittest.TestCase):
    def test_codes(self):
        table, x = table_of(), torch.randn(2, 5, 3, 16)
        refused(self, "ALIAS", lambda: rotary.rotate_qk_(x, x, table, layout="bthd"))
        heads = torch.zeros(2, 5, 4, 16)
        for one in (heads, heads.double(), torch.zeros(2, 5, 4, 32)[..., ::2]):
            refused(self, "ALIAS", lambda: rotary.rotate_qk_(one[:, :, :3], one[:, :, 1:], table, layout="bthd"))
            rotary.rotate_qk_(one[:, :, :2], one[:, :, 2:], table, layout="bthd")
        for q, k in ((heads, heads.numpy()), (heads.numpy(), heads)):
            with self.assertRaises(TypeError):
                rotary.rotate_qk(q, k, table, layout="bthd")
        rope = rotary.RotaryEmbedding(head_dim=16, pairing="half", layout="bthd")
        for dtype in (torch.float16, torch.bfloat16):
            refused(self, "DTYPE", lambda: rope(heads, positions=torch.arange(1000, 1005).to(dtype)))
        c, s = rows_of(table)
        table = rotary.from_rows(c, s, pairing="half")
        refused(self, "DEVICE", lambda: rotary.rotate(x.to("meta"), table, layout="bthd"))

    def test_the_cuda_kernels_refuse_memory_of_the_cpu(self):
        x, (c, s) = torch.randn(2, 5, 3, 16), rows_of(table_of())
        words = c, s, "half", "bthd", 0, False, 0
        refused(self, "DEVICE", lambda: rotary._core._gpu_rotate(x, None, torch.empty_like(x), None, *words))

    def test_positions_of_another_device_are_copied(self):
        class Elsewhere(torch.Tensor):
            """A tensor that says it is not on the CPU, since there is no other device here."""

            is_cpu = False
            copied = 0

            def cpu(self):
                type(self).copied += 1
                return self.as_subclass(torch.Tensor)

        ids = torch.arange(5).as_subclass(Elsewhere)
        self.assertEqual(rotary.Table(rotary.Rope(head_dim=16, rotary_dim=12, pairing="half"), ids), table_of())
        self.assertEqual(Elsewhere.copied, 1)
        with self.assertRaises(NotImplementedError):
            rotary.Table(rotary.Rope(head_dim=16, pairing="half"), torch.arange(5, device="meta"))
