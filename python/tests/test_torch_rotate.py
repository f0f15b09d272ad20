"""rotate and its family on torch's tensors: values, strides, rows, errors."""

import threading
import unittest

import rotary
from torch_support import PAIRINGS, SHAPES, eager, needs_torch, refused, rows_of, straight_calls, table_of, torch, turned

if torch is not None:
    from torch_support import DTYPES, Seen


@needs_torch
class Values(unittest.TestCase):
    def test_every_layout_dtype_and_pairing(self):
        for layout, shape in SHAPES.items():
            for dtype in DTYPES:
                for pairing in PAIRINGS:
                    for backward in (False, True):
                        with self.subTest(layout=layout, dtype=dtype, pairing=pairing, backward=backward):
                            table, x = table_of(pairing), torch.randn(shape).to(dtype)
                            expected = turned(x, table, layout, backward=backward)
                            direction = "backward" if backward else "forward"
                            with straight_calls() as calls:
                                y = rotary.rotate(x, table, layout=layout, direction=direction)
                            self.assertEqual(len(calls), 0 if dtype == torch.float64 else 1)
                            self.assertTrue(torch.equal(y, expected))
                            self.assertEqual((y.dtype, y.stride()), (x.dtype, x.stride()))
                            recorded = x.clone().requires_grad_()
                            with Seen() as seen:
                                z = rotary.rotate(recorded, table, layout=layout, direction=direction)
                            self.assertTrue(torch.equal(z, expected) and z.requires_grad and seen.names)
                            grad = torch.randn_like(z)
                            z.backward(grad)
                            back = turned(grad, table, layout, backward=not backward)
                            self.assertTrue(torch.equal(recorded.grad, back))

    def test_rows_of_each_batch_and_first(self):
        for pairing in PAIRINGS:
            table = table_of(pairing, [[0, 1, 2, 3, 4], [7, 8, 9, 10, 11]], rotary_dim=8)
            for layout in ("bthd", "tbhd", "bhtd"):
                for dtype in (torch.float32, torch.float64):
                    x = torch.randn(SHAPES[layout]).to(dtype)
                    expected = turned(x, table, layout, first=6)
                    self.assertTrue(torch.equal(rotary.rotate(x, table, layout=layout, first=6), expected))
                    y = rotary.rotate(x.requires_grad_(), table, layout=layout, first=6)
                    self.assertTrue(torch.equal(y, expected))

    def test_rows_per_head(self):
        random = torch.Generator().manual_seed(0)
        speeds = torch.randn(2, 2, 6, generator=random).double()
        for pairing in PAIRINGS:
            places = [[[0, 1, 2, 3, 4]] * 2, [[7, 8, 9, 0, 1]] * 2]
            table = rotary.Table(rotary.Frequencies(speeds, pairing=pairing), places)
            alone = [[x[:, :, row] for x in rows_of(table)] for row in (0, 1)]
            as_tensors = rotary.from_rows(*rows_of(table), pairing=pairing)
            for layout in ("bthd", "bhtd", "hbtd"):
                at = layout.index("h")
                for dtype in (torch.float32, torch.float64):
                    x = torch.randn([{"h": 4, "b": 2, "t": 5, "d": 16}[letter] for letter in layout]).to(dtype)
                    expected = torch.stack(
                        [
                            eager(one, *(rows.to(dtype) for rows in alone[h // 2]), pairing, layout.replace("h", ""))
                            for h, one in enumerate(x.unbind(at))
                        ],
                        at,
                    )
                    for rows in (table, as_tensors):
                        self.assertTrue(torch.equal(rotary.rotate(x, rows, layout=layout), expected))
                        recorded = x.clone().requires_grad_()
                        self.assertTrue(torch.equal(rotary.rotate(recorded, rows, layout=layout), expected))
        told = refused(self, "SHAPE", lambda: rotary.rotate(torch.ones(2, 5, 3, 16).double(), as_tensors, layout="bthd"))
        self.assertIn("multiple of the 2 heads", told)

    def test_q_and_k(self):
        table = table_of()
        for dtype in DTYPES:
            q, k = torch.randn(2, 4, 5, 16).to(dtype), torch.randn(2, 2, 5, 24).to(dtype)
            expected = [turned(x, table, "bhtd") for x in (q, k)]
            for one, two in ((q, k), (q.clone().requires_grad_(), k), (q, k.clone().requires_grad_())):
                made = rotary.rotate_qk(one, two, table, layout="bhtd")
                self.assertTrue(all(map(torch.equal, made, expected)))
            outs = torch.empty_like(q), torch.empty_like(k)
            made = rotary.rotate_qk(q, k, table, layout="bhtd", out=outs)
            self.assertTrue(made[0] is outs[0] and made[1] is outs[1] and all(map(torch.equal, outs, expected)))
            made = rotary.rotate_qk_(q, k, table, layout="bhtd")
            self.assertTrue(made[0] is q and made[1] is k and all(map(torch.equal, made, expected)))

    def test_queries_times_their_factors(self):
        """By the C++ part, by an op, by torch's own ops: the bits of rows times the factors."""
        table, each = table_of("interleaved"), torch.linspace(0.5, 3, 10).reshape(2, 5)
        for dtype, scale in ((dtype, scale) for dtype in DTYPES for scale in (each, each[1], each.double().numpy())):
            q, k = torch.randn(2, 4, 5, 16).to(dtype), torch.randn(2, 2, 5, 24).to(dtype)
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            s = torch.as_tensor(scale).to(wide).expand(2, 5)
            rows = [row.to(wide) * s[..., None] for row in rows_of(table)]
            expected = (q.to(wide) * s[:, None, :, None]).to(dtype)
            expected[..., 2:14] = eager(q, *rows, "interleaved", "bhtd", first=2)[..., 2:14]
            alone = turned(k, table, "bhtd", first=2)
            for one in (q, q.clone().requires_grad_()):
                made = rotary.rotate_qk(one, k, table, layout="bhtd", first=2, query_scale=scale)
                self.assertTrue(torch.equal(made[0], expected) and torch.equal(made[1], alone))
            per_head = [row[:, None].expand(5, 2, 6)[None] for row in rows_of(table)]
            made = rotary.rotate_qk(
                one, k, rotary.torch.TensorTable(*per_head, "interleaved"), layout="bhtd", first=2, query_scale=scale
            )
            self.assertTrue(torch.equal(made[0], expected) and torch.equal(made[1], alone))
            made = rotary.rotate_qk_(q, k, table, layout="bhtd", first=2, query_scale=scale)
            self.assertTrue(made[0] is q and torch.equal(q, expected) and torch.equal(k, alone))
        for code, wrong in (("SHAPE", each[:, :4]), ("SHAPE", each.T), ("VALUE", each * torch.inf)):
            for one in (q.float(), q):
                refused(self, code, lambda: rotary.rotate_qk(one, k, table, layout="bhtd", query_scale=wrong))

    def test_packed(self):
        for dtype in (torch.float32, torch.float64):
            qkv, table = torch.randn(2, 5, 8, 16).to(dtype), table_of("interleaved")
            expected = qkv.clone()
            expected[:, :, :6] = turned(qkv[:, :, :6], table, "bthd")
            self.assertTrue(torch.equal(rotary.rotate_qkv(qkv, table, 2, layout="bthd"), expected))
            x = qkv.clone().requires_grad_()
            y = rotary.rotate_qkv(x, table, 2, layout="bthd")
            self.assertTrue(torch.equal(y, expected))
            grad = torch.randn_like(y)
            y.backward(grad)
            self.assertTrue(torch.equal(x.grad[:, :, 6:], grad[:, :, 6:]))
            self.assertTrue(torch.equal(x.grad, rotary.rotate_qkv(grad, table, 2, layout="bthd", direction="backward")))
            self.assertTrue(torch.equal(rotary.rotate_qkv_(qkv, table, 2, layout="bthd"), expected))

    def test_strides(self):
        table, whole = table_of(rotary_dim=8), torch.randn(2, 10, 6, 32)
        views = {
            "inner stride 2": whole[:, :5, :3, ::2],
            "expanded": whole[:1, :5, :1, :16].expand(2, 5, 3, 16),
            "every second token": whole[:, ::2, :3, 4:20],
            "transposed": whole[:, :3, :5, :16].transpose(1, 2),
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
    def test_codes_are_the_same_on_every_way(self):
        table = table_of()
        for dtype in (torch.float32, torch.float64):
            for records in (False, True):
                x = torch.randn(2, 5, 3, 16, dtype=dtype, requires_grad=records)
                for code, given, words in (
                    ("SHAPE", x, {"layout": "thd"}),
                    ("SHAPE", x, {"layout": "ttd"}),
                    ("SHAPE", x[:, :4], {}),
                    ("SHAPE", x[..., :8], {}),
                    ("SHAPE", x, {"first": 5}),
                    ("VALUE", x, {"direction": "back"}),
                    ("VALUE", x, {"stores": "fast"}),
                ):
                    refused(self, code, lambda: rotary.rotate(given, table, **{"layout": "bthd", **words}))
                refused(self, "SHAPE", lambda: rotary.rotate(x, table, layout=None))
                refused(self, "SHAPE", lambda: rotary.rotate_qkv(x, table, 2, layout="bthd"))
                refused(self, "SHAPE", lambda: rotary.rotate_qk(x, x[..., :8], table, layout="bthd"))
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
        whole = torch.zeros(2, 5, 3, 16, dtype=torch.int32)
        refused(self, "DTYPE", lambda: rotary.rotate(whole, table, layout="bthd"))
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

    def test_type_errors(self):
        x, table = torch.randn(2, 5, 3, 16), table_of()
        for y in (x, x.clone().requires_grad_()):
            for wrong in (
                lambda: rotary.rotate(y, rows_of(table), layout="bthd"),
                lambda: rotary.rotate(y, None, layout="bthd"),
                lambda: rotary.rotate(y, rows_of(table)[0], layout="bthd"),
                lambda: rotary.rotate_qk(y, 3, table, layout="bthd"),
                lambda: rotary.rotate_qk(y, y, table, layout="bthd", out=y),
                lambda: rotary.from_rows(y, 3, pairing="half"),
            ):
                with self.assertRaises(TypeError):
                    wrong()
