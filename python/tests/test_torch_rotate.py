"""rotate and its family on torch's tensors: strides, rows that are tensors, errors."""

import threading
import unittest

import rotary
from torch_support import PAIRINGS, eager, needs_torch, refused, rows_of, table_of, torch, turned


@needs_torch
class Values(unittest.TestCase):
    """Those of every layout, type and pairing: test_rotate.py."""

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
                made = rotary.from_rows(*rows, pairing="half")
                self.assertTrue(torch.equal(rotary.rotate(x, made, layout="bthd"), expected))
                y = rotary.rotate(x.clone().requires_grad_(), made, layout="bthd")
                self.assertTrue(torch.equal(y, expected))
                self.assertTrue(torch.equal(rotary.rotate_(x.clone(), made, layout="bthd"), expected))
        for dtype in (torch.bfloat16, torch.float16):
            c16, s16 = c.to(dtype), s.to(dtype)
            made = rotary.from_rows(c16, s16, pairing="half")
            expected = eager(x, c16.float(), s16.float(), "half", "bthd")
            self.assertTrue(torch.equal(rotary.rotate(x, made, layout="bthd"), expected))

    def test_doubled_rows(self):
        for pairing in PAIRINGS:
            table, x = table_of(pairing), torch.randn(2, 3, 5, 16)
            c, s = rows_of(table)
            expected = eager(x, c, s, pairing, "bhtd")
            made = rotary.from_doubled(torch.cat((c, c), -1)[None], torch.cat((s, s), -1)[None], pairing=pairing)
            self.assertEqual((made.doubled, made.rotary_dim, made.tokens, made.shape), ("halves", 12, 5, (1, 5, 6)))
            self.assertTrue(torch.equal(rotary.rotate(x, made, layout="bhtd"), expected))
            sides = [rows.repeat_interleave(2, -1) for rows in (c, s)]
            if pairing == "half":
                refused(self, "SHAPE", lambda: rotary.from_doubled(*sides, pairing=pairing))
            else:
                made = rotary.from_doubled(*sides, pairing=pairing)
                self.assertEqual(made.doubled, "neighbours")
                self.assertTrue(torch.equal(rotary.rotate(x, made, layout="bhtd"), expected))
            made = rotary.from_doubled(*sides, pairing=pairing, doubled="neighbours")
            self.assertTrue(torch.equal(rotary.rotate(x, made, layout="bhtd"), expected))
        for make in (
            lambda: rotary.from_doubled(c, s, pairing="half"),
            lambda: rotary.from_rows(torch.cat((c, c), -1), torch.cat((s, s), -1), pairing="half"),
            lambda: rotary.from_doubled(*sides, pairing="interleaved", doubled="halves"),
        ):
            refused(self, "SHAPE", make)

    def test_rows_that_are_the_tensor_itself(self):
        memory = torch.randn(5, 16)
        made = rotary.from_rows(memory[:, :8], memory[:, 8:], pairing="half")
        expected = eager(memory, memory[:, :8].clone(), memory[:, 8:].clone(), "half", "td")
        self.assertTrue(torch.equal(rotary.rotate_(memory, made, layout="td"), expected))

    def test_tables_of_tensors_rotate_numpy_too(self):
        import numpy as np

        x, table = torch.randn(5, 3, 16), table_of()
        made = rotary.from_rows(*rows_of(table), pairing="half")
        self.assertTrue(
            np.array_equal(rotary.rotate(x.numpy(), made, layout="thd"), rotary.rotate(x, table, layout="thd"))
        )

    def test_eight_threads(self):
        table, x = table_of(), torch.randn(2, 5, 3, 16)
        expected, wrong = turned(x, table, "bthd"), []

        def work(records):
            for _ in range(100):
                y = rotary.rotate(x.clone().requires_grad_(records), table, layout="bthd")
                if not torch.equal(y, expected):
                    wrong.append(y)

        threads = [threading.Thread(target=work, args=(bool(i % 2),)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


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
        rope = rotary.torch.RotaryEmbedding(head_dim=16, pairing="half", layout="bthd")
        for dtype in (torch.float16, torch.bfloat16):
            refused(self, "DTYPE", lambda: rope(heads, positions=torch.arange(1000, 1005).to(dtype)))
        c, s = rows_of(table)
        refused(self, "PAIRING", lambda: rotary.from_rows(c, s, pairing=None))
        refused(self, "SHAPE", lambda: rotary.from_rows(c, s[:, :5], pairing="half"))
        refused(self, "DTYPE", lambda: rotary.from_rows(c.int(), s, pairing="half"))
        made = rotary.from_rows(c, s, pairing="half")
        refused(self, "DEVICE", lambda: rotary.rotate(x.to("meta"), made, layout="bthd"))

    def test_positions_of_another_device_are_copied(self):
        class Elsewhere(torch.Tensor):
            """Says that it is not on the CPU: there is no other device here."""

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
