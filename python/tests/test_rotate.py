"""rotate and its family against numpy, bit for bit."""

import unittest

import numpy as np
import rotary
from support import DTYPES, LAYOUTS, all_layouts, bfloat16, numbers, refused, rotated, same_bits


def table_of(pairing, tokens=5, batch=0, rotary_dim=12):
    rope = rotary.Rope(head_dim=16, rotary_dim=rotary_dim, pairing=pairing)
    positions = np.arange(tokens) + 3 if not batch else np.arange(batch * tokens).reshape(batch, tokens) * 7
    return rotary.Table(rope, positions)


def cos_sin(table):
    return np.asarray(table.cos), np.asarray(table.sin)


class Rotate(unittest.TestCase):
    def test_all_layouts_dtypes_and_pairings(self):
        for (layout, shape), dtype, pairing in all_layouts():
            with self.subTest(layout=layout, dtype=dtype, pairing=pairing):
                table, x = table_of(pairing), numbers(shape, dtype)
                kept = x.copy()
                back = rotated(x, *cos_sin(table), pairing, layout, backward=True)
                self.assertTrue(same_bits(rotary.rotate_backward(x, table, layout=layout), back))
                for direction in ("backward", "forward"):
                    words = {"layout": layout, "direction": direction}
                    expected = back if direction == "backward" else rotated(x, *cos_sin(table), pairing, layout)
                    y = rotary.rotate(x, table, **words)
                    self.assertIs(type(y), np.ndarray)
                    self.assertTrue(same_bits(y, expected) and same_bits(x, kept))
                    out, given = np.zeros_like(x), x.copy()
                    self.assertIs(rotary.rotate(x, table, out=out, **words), out)
                    self.assertIs(rotary.rotate_(given, table, **words), given)
                    self.assertTrue(same_bits(out, expected) and same_bits(given, expected))

    def test_rows_of_each_batch_and_one_token_without_its_dimension(self):
        one = rotary.Table(rotary.Rope(head_dim=16, pairing="half"), 9)
        cases = [(table_of(pairing, batch=2), LAYOUTS["bhtd"], "bhtd") for pairing in ("half", "interleaved")]
        for table, shape, layout in (*cases, (one, (3, 16), "hd")):
            x = numbers(shape)
            expected = rotated(x, *cos_sin(table), table.pairing, layout)
            self.assertTrue(same_bits(rotary.rotate(x, table, layout=layout), expected))

    def test_strides(self):
        table = table_of("half")
        whole = numbers((2, 10, 6, 32))
        views = {
            "every second token and head": whole[:, ::2, ::2, :16],
            "a slice of heads": whole[:, :5, 1:4, 8:24],
            "transposed": whole[:, :3, :5, :16].transpose(0, 2, 1, 3),
        }
        for name, view in views.items():
            with self.subTest(name):
                expected = rotated(view, *cos_sin(table), "half", "bthd")
                self.assertTrue(same_bits(rotary.rotate(view, table, layout="bthd"), expected))
                copy = whole.copy()
                part = copy.reshape(-1)[(view.ctypes.data - whole.ctypes.data) // 4 :]
                part = np.lib.stride_tricks.as_strided(part, view.shape, view.strides)
                rotary.rotate_(part, table, layout="bthd")
                self.assertTrue(same_bits(part, expected))
                part[...] = view
                self.assertTrue(same_bits(copy, whole), "nothing else is written")

    def test_a_broadcast_input_is_read_and_not_written(self):
        table = table_of("half")
        one = numbers((1, 5, 1, 16))
        x = np.broadcast_to(one, (2, 5, 3, 16))
        expected = rotated(x, *cos_sin(table), "half", "bthd")
        self.assertTrue(same_bits(rotary.rotate(x, table, layout="bthd"), expected))
        refused(self, "VALUE", lambda: rotary.rotate_(x, table, layout="bthd"))

    def test_first(self):
        table = table_of("interleaved", rotary_dim=8)
        for dtype in DTYPES:
            x = numbers((2, 5, 3, 16), dtype)
            expected = x.copy()
            expected[..., 6:] = rotated(np.ascontiguousarray(x[..., 6:]), *cos_sin(table), "interleaved", "bthd")
            self.assertTrue(same_bits(rotary.rotate(x, table, layout="bthd", first=6), expected))
            q, k = rotary.rotate_qk(x, x, table, layout="bthd", first=6)
            self.assertTrue(same_bits(q, expected) and same_bits(k, expected))
            self.assertTrue(same_bits(rotary.rotate_(x, table, layout="bthd", first=6), expected))

    def test_qk(self):
        for dtype in DTYPES:
            table = table_of("half")
            q, k = numbers((2, 4, 5, 16), dtype), numbers((2, 2, 5, 24), dtype, seed=1)
            expected = [rotated(x, *cos_sin(table), "half", "bhtd") for x in (q, k)]
            for y, e in zip(rotary.rotate_qk(q, k, table, layout="bhtd"), expected):
                self.assertTrue(same_bits(y, e))
            out = np.empty_like(q), np.empty_like(k)
            for made, where in (
                (rotary.rotate_qk(q, k, table, layout="bhtd", out=out), out),
                (rotary.rotate_qk_(q, k, table, layout="bhtd"), (q, k)),
            ):
                self.assertTrue(made[0] is where[0] and made[1] is where[1])
                self.assertTrue(all(map(same_bits, made, expected)))

    def test_queries_times_their_factors(self):
        table, words = table_of("interleaved", rotary_dim=12), {"layout": "bhtd", "first": 2}
        cos, sin = cos_sin(table)
        each = np.linspace(0.5, 3, 10, dtype=np.float64).reshape(2, 5)  # rounded to float32
        for dtype, scale in ((dtype, scale) for dtype in DTYPES for scale in (each, each[1].astype(np.float32))):
            q, k = numbers((2, 4, 5, 16), dtype), numbers((2, 2, 5, 24), dtype, seed=1)
            s = np.broadcast_to(scale.astype(np.float32), (2, 5))
            wide = q.astype(np.float32) * s[:, None, :, None]
            expected = wide.astype(dtype)
            for b in range(2):
                rows = cos * s[b, :, None], sin * s[b, :, None]
                part = np.ascontiguousarray(q[b : b + 1, ..., 2:14])
                expected[b, ..., 2:14] = rotated(part, *rows, "interleaved", "bhtd")[0]
            alone = rotary.rotate(k, table, **words)
            for made in (
                rotary.rotate_qk(q, k, table, query_scale=scale, **words),
                rotary.rotate_qk_(q, k, table, query_scale=scale, **words),
            ):
                self.assertTrue(same_bits(made[0], expected) and same_bits(made[1], alone))
        for code, wrong in (("SHAPE", each[:, :4]), ("SHAPE", each.T), ("DTYPE", [1]), ("VALUE", each[0] * np.inf)):
            wrong = np.ones(5, np.int64) if code == "DTYPE" else wrong
            told = refused(self, code, lambda: rotary.rotate_qk(q, k, table, query_scale=wrong, **words))
            self.assertTrue(code != "DTYPE" or "query_scale must be of floats but got int64" in told, told)

    def test_qkv(self):
        table = table_of("interleaved")
        qkv = numbers((2, 5, 8, 16))
        expected = qkv.copy()
        part = np.ascontiguousarray(qkv[:, :, :6])
        expected[:, :, :6] = rotated(part, *cos_sin(table), "interleaved", "bthd")
        self.assertTrue(same_bits(rotary.rotate_qkv(qkv, table, 2, layout="bthd"), expected))
        self.assertIs(rotary.rotate_qkv_(qkv, table, kv_heads=2, layout="bthd"), qkv)
        self.assertTrue(same_bits(qkv, expected))

    def test_large_calls_on_several_threads(self):
        rope = rotary.Rope(head_dim=128, pairing="half")
        table, x = rotary.Table(rope, range(300)), numbers((1, 300, 16, 128))
        before = rotary.get_num_threads()
        results = []
        for threads in (1, 2, 5, 0):
            rotary.set_num_threads(threads)
            results.append(rotary.rotate(x, table, layout="bthd"))
        rotary.set_num_threads(before)
        expected = rotated(x, *cos_sin(table), "half", "bthd")
        self.assertTrue(all(same_bits(y, expected) for y in results))

    def test_every_target_and_kind_of_stores(self):
        table, x = table_of("half"), numbers((2, 5, 3, 16))
        expected = rotated(x, *cos_sin(table), "half", "bthd")
        chosen = rotary.chosen_target()
        try:
            for name, runs in rotary.targets():
                if runs:
                    rotary.use_target(name)
                    self.assertEqual(rotary.chosen_target(), name)
                    self.assertTrue(same_bits(rotary.rotate(x, table, layout="bthd"), expected))
        finally:
            rotary.use_target(chosen)
        for stores in ("automatic", "cached", "streaming"):
            self.assertTrue(same_bits(rotary.rotate(x, table, layout="bthd", stores=stores), expected))

    def test_empty(self):
        table = rotary.Table(rotary.Rope(head_dim=16, pairing="half"), range(0))
        self.assertEqual(rotary.rotate(numbers((2, 0, 3, 16)), table, layout="bthd").shape, (2, 0, 3, 16))
        self.assertEqual(rotary.rotate(numbers((0, 5, 3, 16)), table_of("half"), layout="bthd").shape, (0, 5, 3, 16))

    @unittest.skipIf(bfloat16 is None, "ml_dtypes is not installed")
    def test_uint16_is_not_taken_for_bfloat16(self):
        refused(self, "DTYPE", lambda: rotary.rotate(np.zeros((5, 3, 16), np.uint16), table_of("half"), layout="thd"))
