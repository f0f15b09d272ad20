"""rotate and its family on numpy's, torch's and JAX's arrays, bit for bit beside the formula in numpy."""

import itertools

import numpy as np
import rotary
from doors import Case, Jax
from support import LAYOUTS, PAIRINGS, numbers, refused, rotated, same_bits
from torch_support import rope_of, table_of


def cos_sin(table):
    return np.asarray(table.cos), np.asarray(table.sin)


def views(whole):
    """Named parts of an array [2, 10, 6, 32] of numpy or torch, with gaps in memory."""
    yield "every second token and head", whole[:, ::2, ::2, :16]
    yield "a slice of heads", whole[:, :5, 1:4, 8:24]
    yield "transposed", whole[:, :3, :5, :16].swapaxes(1, 2)
    if not isinstance(whole, np.ndarray):
        yield "gaps inside of heads", whole[:, :5, :3, ::2]


class Rotate(Case):
    def turned(self, door, shape, table, layout, dtype="float32", first=0, direction="forward"):
        """Rotates one tensor in every way."""
        x, words = door.make(numbers(shape), dtype), {"layout": layout, "first": first, "direction": direction}
        how = table.pairing, layout, first, direction == "backward"
        self.same(door, "rotate", [x], [rotated(door.read(x), *cos_sin(table), *how)], table, **words)

    def test_every_layout_dtype_pairing_and_direction(self):
        for door, (layout, shape), pairing in itertools.product(self.DOORS, LAYOUTS.items(), PAIRINGS):
            for case, (dtype, direction) in enumerate(itertools.product(door.dtypes, ("forward", "backward"))):
                with self.subTest(layout=layout, dtype=dtype, pairing=pairing, direction=direction):
                    self.turned(door, shape, table_of(pairing), layout, dtype, case % 4, direction)

    def test_rows_of_each_batch_and_one_token_without_its_dimension(self):
        own = np.arange(10).reshape(2, 5) * 7
        for door, pairing in itertools.product(self.DOORS, PAIRINGS):
            for layout, positions in itertools.product(("bthd", "tbhd", "bhtd", "hbtd"), (own, own[:1])):
                self.turned(door, LAYOUTS[layout], rotary.Table(rope_of(pairing, 8), positions), layout, first=6)
            for layout, shape, positions in (("hd", (3, 16), 9), ("hd", (3, 16), [[9]]),
                                             ("bhd", (2, 3, 16), [[9], [4]])):
                self.turned(door, shape, table_of(pairing, positions), layout)

    def test_rows_per_head(self):
        """Heads of a group rotate by its row: in q, in k and in a packed tensor."""
        speeds, places = np.random.default_rng(0).normal(size=(2, 2, 6)), np.arange(20).reshape(2, 2, 5)
        for door, pairing in itertools.product(self.DOORS, PAIRINGS):
            table = rotary.Table(rotary.makers.Frequencies(speeds, pairing=pairing), places)
            for layout, shape in (("bthd", (2, 5, 4, 16)), ("tbhd", (5, 2, 2, 16)), ("hbtd", (4, 2, 5, 16))):
                self.turned(door, shape, table, layout, door.dtypes[-1], direction="backward")
            q, k = (door.make(numbers((2, 5, heads, 20)), "float32") for heads in (4, 2))
            expected = [rotated(door.read(x), *cos_sin(table), pairing, "bthd") for x in (q, k)]
            self.same(door, "rotate_qk", [q, k], expected, table, layout="bthd")
            sentence = refused(self, "SHAPE", lambda: rotary.rotate(q[:, :, :3], table, layout="bthd"))
            self.assertIn("multiple of the 2 heads", sentence)

    def test_q_and_k(self):
        for door, first in itertools.product(self.DOORS, (0, 4)):
            for dtype, of_k in itertools.product(door.dtypes, ("float32", door.dtypes[1])):
                if "float64" in (dtype, of_k) and dtype != of_k:
                    continue
                q, k = door.make(numbers((2, 4, 5, 16)), dtype), door.make(numbers((2, 2, 5, 24), seed=1), of_k)
                for direction in ("forward", "backward"):
                    table, words = table_of("interleaved_to_half"), {"layout": "bhtd", "first": first}
                    how = *cos_sin(table), table.pairing, "bhtd", first, direction == "backward"
                    expected = [rotated(door.read(x), *how) for x in (q, k)]
                    self.same(door, "rotate_qk", [q, k], expected, table, **words, direction=direction)

    def test_queries_times_their_factors(self):
        """q has the bits of rows times the factors; its other elements are multiplied themselves; k is only rotated."""
        table, each = table_of("interleaved"), np.linspace(0.5, 3, 10).reshape(2, 5)
        per_head = rotary.Table(rotary.makers.Frequencies(np.ones((2, 2, 6)), pairing="half"), np.ones((2, 2, 5)))
        for door, rows in itertools.product(self.DOORS, (table, per_head)):
            for dtype, scale in itertools.product(door.dtypes, (each, each[1].astype(np.float32))):
                q, k = door.make(numbers((2, 4, 5, 16)), dtype), door.make(numbers((2, 2, 5, 24), seed=1), dtype)
                wide = door.read(q)
                s = np.broadcast_to(scale.astype(wide.dtype if dtype == "float64" else np.float32), (2, 5))
                for direction in ("forward", "backward"):
                    how = rows.pairing, "bhtd", 2, direction == "backward"
                    c_s = [np.broadcast_to(one.astype(wide.dtype), (2, *one.shape[-3 if one.ndim > 3 else -2 :]))
                           for one in cos_sin(rows)]  # fmt: skip
                    of_q = [one * s.reshape(2, 5, *(1,) * (one.ndim - 2)) for one in c_s]
                    expected = wide * s[:, None, :, None]
                    expected[..., 2:14] = rotated(wide, *of_q, *how)[..., 2:14]
                    alone = rotated(door.read(k), *cos_sin(rows), *how)
                    words = {"layout": "bhtd", "first": 2, "direction": direction, "query_scale": scale}
                    self.same(door, "rotate_qk", [q, k], [expected, alone], rows, **words)
            for code, wrong in (("SHAPE", each[:, :4]), ("SHAPE", each.T), ("DTYPE", np.ones(5, np.int64)),
                                *([] if isinstance(door, Jax) else [("VALUE", each * np.inf)])):  # fmt: skip
                words = {"layout": "bhtd", "query_scale": wrong}
                sentence = refused(self, code, lambda: rotary.rotate_qk(q, k, table, **words))
                self.assertTrue(code != "DTYPE" or "query_scale must" in sentence, sentence)
                if isinstance(door, Jax):
                    refused(self, code, lambda: rotary.jax.rotate_qk(q, k, table, **words))

    def test_a_batch_of_several_dimensions(self):
        """[batch, windows, tokens, heads, head_dim] beside one batch of all windows."""
        shapes = ("bthd", (3, 2, 5, 3, 16)), ("bshd", (2, 1, 3, 5, 4, 16)), ("bhtd", (1, 2, 4, 5, 16))
        for door, (layout, shape) in itertools.product(Case.DOORS, shapes):
            table, flat = table_of(), numbers((np.prod(shape[:-3]), *shape[-3:]))
            expected = rotated(flat, *cos_sin(table), "half", layout.replace("s", "t")).reshape(shape)
            x, words = door.make(flat.reshape(shape), "float32"), {"table": table, "layout": layout}
            k = x[..., :1, :] if layout[-2] == "h" else x[..., :1, :, :]
            turned = [*(turn(x, table, layout=layout) for turn in door.turns()[:2]), rotary.rotate_qk(x, k, **words)[0]]
            if not isinstance(door, Jax):
                turned.append(rotary.rotate_(door.make(flat.reshape(shape), "float32"), **words))
            self.assertTrue(all(same_bits(door.read(y), expected) for y in turned), (type(door), layout))
            refused(self, "SHAPE", lambda: rotary.rotate(x, table, layout="tbhd"))
        apart = numbers((2, 4, 5, 3, 16))[:, :3]
        refused(self, "SHAPE", lambda: rotary.rotate(apart, table_of(), layout="bthd"))

    def test_words_of_other_libraries(self):
        x, table = numbers((2, 5, 3, 16)), table_of("interleaved")
        for layout, other in (("bthd", "bshd"), ("bhtd", "bhsd"), ("tbhd", "sbhd")):
            y = np.ascontiguousarray(x.transpose(["bthd".index(letter) for letter in layout]))
            self.assertTrue(same_bits(*(rotary.rotate(y, table, layout=word) for word in (layout, other))))
        for word, ours in (("neox", "half"), ("rotate_half", "half"), ("gptj", "interleaved"), ("norm", "interleaved")):
            self.assertEqual(table_of(word), table_of(ours))
            self.assertEqual(rotary.from_rows(table.cos, table.sin, pairing=word).pairing, ours)

    def test_strides(self):
        table = table_of()
        for door in Rows.DOORS:
            whole, written = (door.make(numbers((2, 10, 6, 32)), "float32") for _ in range(2))
            for (name, x), (_, part) in zip(views(whole), views(written)):
                with self.subTest(name, door=type(door)):
                    expected = rotated(door.read(x), *cos_sin(table), "half", "bthd")
                    self.assertTrue(same_bits(door.read(rotary.rotate(x, table, layout="bthd")), expected))
                    self.assertIs(rotary.rotate_(part, table, layout="bthd"), part)
                    self.assertTrue(same_bits(door.read(part), expected))
                    part[...] = x
                    self.assertTrue(same_bits(door.read(written), door.read(whole)), "nothing else is written")

    def test_a_broadcast_input_is_read_and_not_written(self):
        table, x = table_of(), np.broadcast_to(numbers((1, 5, 1, 16)), (2, 5, 3, 16))
        expected = rotated(x, *cos_sin(table), "half", "bthd")
        self.assertTrue(same_bits(rotary.rotate(x, table, layout="bthd"), expected))
        refused(self, "VALUE", lambda: rotary.rotate_(x, table, layout="bthd"))

    def test_every_target(self):
        table, x = table_of(), numbers((2, 5, 3, 16))
        expected = rotated(x, *cos_sin(table), "half", "bthd")
        self.addCleanup(rotary.cpu.use_target, rotary.cpu.chosen_target())
        for name in [name for name, runs in rotary.cpu.targets() if runs]:
            rotary.cpu.use_target(name)
            self.assertEqual(rotary.cpu.chosen_target(), name)
            self.assertTrue(same_bits(rotary.rotate(x, table, layout="bthd"), expected))

    def test_empty(self):
        for shape, positions in (((2, 0, 3, 16), range(0)), ((0, 5, 3, 16), range(5))):
            self.assertEqual(rotary.rotate(numbers(shape), table_of(positions=positions), layout="bthd").shape, shape)


class Rows(Case):
    """from_rows and from_doubled, with numpy's arrays and with tensors."""

    DOORS = [door for door in Case.DOORS if not isinstance(door, Jax)]

    @staticmethod
    def forms(table):
        """Rows with one column for each pair, doubled in halves, and doubled side by side."""
        single = cos_sin(table)
        return single, [np.concatenate([x, x], -1) for x in single], [np.repeat(x, 2, -1) for x in single]

    def test_every_form_turns_as_its_table(self):
        for door, pairing, positions in itertools.product(self.DOORS, PAIRINGS, (range(5), [[3, 4, 5, 6, 7]])):
            table, x = table_of(pairing, positions), numbers((2, 3, 5, 16))
            single, halves, sides = ([door.make(one, "float32") for one in rows] for rows in self.forms(table))
            turned = rotary.rotate(x, table, layout="bhtd")
            for function, rows, words in (
                (rotary.from_rows, single, {}),
                (rotary.from_rows, [one[..., ::2] for one in sides], {}),
                (rotary.from_doubled, halves, {}),
                (rotary.from_doubled, sides, {"doubled": "neighbours"}),
                *([] if pairing == "half" else [(rotary.from_doubled, sides, {})]),
            ):
                copied = function(*rows, pairing=pairing, **words)
                self.assertEqual((copied.shape, copied.pairing, copied.positions), (table.shape, pairing, None))
                self.assertEqual((copied.tokens, copied.batch, copied.rotary_dim), (5, 1, 12))
                self.assertEqual(np.asarray(copied.cos).tolist(), table.cos.tolist())
                for given in (door.make(x, "float32"), x):  # tables of tensors rotate numpy too
                    y = rotary.rotate(given, copied, layout="bhtd")
                    self.assertTrue(same_bits(np.asarray(y), turned))

    def test_narrow_and_wide_rows(self):
        for door in self.DOORS:
            x = numbers((2, 5, 3, 16))
            for dtype, other in itertools.product(("float16", "float64", *door.dtypes), door.dtypes):
                rows = [door.make(one, kind) for one, kind in zip(cos_sin(table_of()), (dtype, other))]
                copied = rotary.from_rows(*rows, pairing="half")
                expected = rotated(x, *(door.read(one).astype(np.float32) for one in rows), "half", "bthd")
                y = rotary.rotate(door.make(x, "float32"), copied, layout="bthd")
                self.assertTrue(same_bits(door.read(y), expected))

    def test_rows_in_the_memory_that_is_written(self):
        for door in self.DOORS:
            memory = door.make(numbers((5, 16)), "float32")
            table = rotary.from_rows(memory[:, :8], memory[:, 8:], pairing="half")
            expected = rotated(door.read(memory).copy(), *map(door.read, (table.cos, table.sin)), "half", "td")
            self.assertTrue(same_bits(door.read(rotary.rotate_(memory, table, layout="td")), expected))

    def test_refusals(self):
        for door in self.DOORS:
            single, halves, sides = ([door.make(one, "float32") for one in rows] for rows in self.forms(table_of()))
            of_rows, doubled = rotary.from_rows, rotary.from_doubled
            for code, part, function, rows, words in (
                ("SHAPE", "use rotary.from_doubled", of_rows, halves, {}),
                ("SHAPE", "use rotary.from_doubled", of_rows, sides, {"pairing": "interleaved"}),
                ("SHAPE", "rotary.from_rows", doubled, single, {}),
                ("SHAPE", "in two halves", doubled, sides, {}),
                ("SHAPE", "in two halves", doubled, sides, {"pairing": "interleaved", "doubled": "halves"}),
                ("SHAPE", "both be", of_rows, (single[0], single[1][:, :5]), {}),
                ("DTYPE", "floats", of_rows, (door.make(np.ones((5, 6)), "int32"), single[1]), {}),
                ("PAIRING", "not given", of_rows, single, {"pairing": None}),
                ("PAIRING", "not given", doubled, halves, {"pairing": None}),
            ):
                sentence = refused(self, code, lambda: function(*rows, **{"pairing": "half", **words}))
                self.assertIn(part, sentence)
            self.assertEqual(of_rows(*halves, pairing="half", repeated=True).pairs, 12)
            at_zero = cos_sin(table_of(positions=0))  # equal columns, which do not count as doubled
            self.assertEqual(of_rows(*at_zero, pairing="half").pairs, 6)


class Errors(Case):
    def test_codes_are_the_same_on_every_way(self):
        for door in self.DOORS:
            for dtype, turn in itertools.product(door.dtypes, door.turns()):
                x = door.make(numbers((2, 5, 3, 16)), dtype)
                for code, given, words in (
                    *(("SHAPE", x, {"layout": layout}) for layout in ("thd", "ttd", "bxhd", "bhdt", None)),
                    *(("SHAPE", part, {}) for part in (x[:, :4], x[..., :8])),
                    *(("SHAPE", x, {"first": first}) for first in (5, -1)),
                    ("VALUE", x, {"direction": "back"}),
                ):
                    with self.subTest(door=type(door), words=words, shape=given.shape):
                        refused(self, code, lambda: turn(given, table_of(), **{"layout": "bthd", **words}))
                refused(self, "SHAPE", lambda: rotary.rotate_qk(x, x[:, :1], table_of(), layout="bthd"))
                refused(self, "SHAPE", lambda: rotary.rotate_qk(x, x[..., :8], table_of(), layout="bthd"))
            for dtype in ("int32", "uint16"):  # which is not taken for bfloat16
                x = door.make(np.ones((5, 3, 16)), dtype)
                refused(self, "DTYPE", lambda: rotary.rotate(x, table_of(), layout="thd"))  # noqa: B023

    def test_type_errors(self):
        for door in self.DOORS:
            for x in [door.make(numbers((5, 3, 16)), dtype) for dtype in door.dtypes]:
                rows = cos_sin(table_of())
                for table in (rows, rows[0], None, 3):
                    with self.assertRaises(TypeError):
                        rotary.rotate(x, table, layout="thd")
                for wrong in (
                    lambda: rotary.rotate_qk(x, 3, table_of(), layout="thd"),
                    lambda: rotary.rotate_qk(x, x, table_of(), layout="thd", out=x),
                    lambda: rotary.rotate_qk(x, table_of(), layout="thd"),
                    lambda: rotary.rotate(x, table_of(), "thd"),
                    lambda: rotary.rotate(x, table_of(), layout="thd", outs=x),
                    lambda: rotary.rotate(x, table_of(), layout=3),
                    lambda: rotary.rotate(x, table_of(), layout="thd", first="a"),
                    lambda: rotary.from_rows(x, 3, pairing="half"),
                ):
                    with self.assertRaises(TypeError):
                        wrong()
