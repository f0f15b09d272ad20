"""The op rotary::rotate and its family: of librotary_torch.so, test_op.py LIBRARY [TEST...]; of the Python package,
test_op.py package [TEST...], which defines rotate and rotate_qk by the same schema.

Judged by torch's own ops, by finite differences and by torch.library.opcheck. The last line says how many
tests passed. Exit 77, with the reason, where torch cannot be imported.
"""

import itertools
import sys
import unittest

try:
    import torch
except (ImportError, OSError) as reason:  # the three wheels that C++ needs cannot be imported
    print(f"skipped: {sys.executable} cannot import torch ({str(reason).splitlines()[0]}); "
          "set TORCH_ROOT to a full one")
    sys.exit(77)
from torch.autograd import gradcheck, gradgradcheck

PAIRINGS = ["half", "interleaved", "interleaved_to_half"]
LAYOUTS = ["bthd", "bhtd", "tbhd", "thd"]
SCHEMAS = {
    "rotate": "rotary::rotate(Tensor x, Tensor cos, Tensor sin, str pairing, str layout, int first=0, "
    "bool backward=False) -> Tensor",
    "rotate_qk": "rotary::rotate_qk(Tensor q, Tensor k, Tensor cos, Tensor sin, str pairing, str layout, int first=0, "
    "bool backward=False) -> (Tensor, Tensor)",
}
B, T, H, D = 2, 5, 3, 8
OURS = sys.argv[1:2] == ["package"]
rotary = torch.ops.rotary
needs_library = unittest.skipIf(OURS, "only librotary_torch.so has it")


def shape_of(layout, batch=B, tokens=T, heads=H, head_dim=D):
    sizes = {"b": batch, "t": tokens, "h": heads, "d": head_dim}
    return [sizes[c] for c in layout]


def heads(layout, dtype=torch.float32, **sizes):
    return torch.randn(shape_of(layout, **sizes), dtype=torch.float64).to(dtype)


def rows(tokens=T, pairs=D // 2, batch=None, dtype=torch.float32, factor=1.0):
    """cos and sin of random angles."""
    angles = torch.randn(([] if batch is None else [batch]) + [tokens, pairs], dtype=torch.float64) * 3
    return (factor * angles.cos()).to(dtype), (factor * angles.sin()).to(dtype)


def meet(table, layout):
    """A table broadcast against heads of that layout."""
    if layout == "thd":
        return (table[0] if table.dim() == 3 else table)[:, None]
    table = table if table.dim() == 3 else table[None]
    return {"bthd": table[:, :, None], "bhtd": table[:, None], "tbhd": table.transpose(0, 1)[:, :, None]}[layout]


def eager(x, cos, sin, pairing, layout, first=0):
    """The formula in torch's ops, in the table's dtype, rounded once."""
    pairs = cos.shape[-1]
    before, block, rest = x[..., :first], x[..., first : first + 2 * pairs], x[..., first + 2 * pairs :]
    c, s = meet(cos, layout), meet(sin, layout)
    if pairing == "half":
        a, b = block[..., :pairs], block[..., pairs:]
    else:
        a, b = block[..., 0::2], block[..., 1::2]
    a, b = a.to(cos.dtype), b.to(cos.dtype)
    y0, y1 = (a * c - b * s).to(x.dtype), (b * c + a * s).to(x.dtype)
    if pairing == "interleaved":
        rotated = torch.stack([y0, y1], -1).flatten(-2)
    else:
        rotated = torch.cat([y0, y1], -1)
    return torch.cat([before, rotated, rest], -1)


def views(layout, dtype, head_dim=D):
    """The same heads as memory lays them: dense, permuted, inside a fused buffer, spread, expanded, inner stride 2."""
    x = heads(layout, dtype, head_dim=head_dim)
    yield "contiguous", x
    yield "transposed", x.transpose(0, 1).contiguous().transpose(0, 1)
    yield "inside a wider buffer", torch.cat([x, x], -1)[..., head_dim:]
    yield "every second", torch.cat([x, x], 0)[::2]
    yield "expanded", x[:1].expand(x.shape)
    yield "inner stride", torch.stack([x, x], -1)[..., 0]
    yield "last dimension outermost", x.movedim(-1, 0).contiguous().movedim(0, -1)


def same_bits(a, b):
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    bits = {4: torch.int32, 2: torch.int16, 8: torch.int64}[a.element_size()]
    return torch.equal(a.contiguous().view(bits), b.contiguous().view(bits))


class Rotate(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(7)

    def test_equals_the_formula_rounded_once_in_every_layout_pairing_dtype_and_view(self):
        dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
        for layout, pairing, dtype in itertools.product(LAYOUTS, PAIRINGS, dtypes):
            for batch in [None, 1, B]:
                if layout == "thd" and batch == B:
                    continue
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                cos, sin = rows(batch=batch, dtype=wide, factor=1.25)
                for kind, x in views(layout, dtype):
                    with self.subTest(layout=layout, pairing=pairing, dtype=dtype, batch=batch, view=kind):
                        y = rotary.rotate(x, cos, sin, pairing, layout)
                        self.assertTrue(same_bits(y, eager(x, cos, sin, pairing, layout)))
                        self.assertEqual(y.stride(-1), 1)

    def test_the_schema(self):
        for name, schema in SCHEMAS.items():
            self.assertEqual(str(getattr(rotary, name).default._schema), schema)

    def test_any_order_of_dimensions_and_none_of_some(self):
        for layout in ["thbd", "hbtd", "htbd", "btd", "tbd", "htd", "bhd", "hbd", "bd", "td", "hd"]:
            x, tokens = heads(layout), T if "t" in layout else 1
            for batch in [None, B] if "b" in layout else [None, 1]:
                cos, sin = (t.requires_grad_() for t in rows(tokens, batch=batch))
                whole = torch.einsum(f"{layout}->{''.join(c for c in 'bthd' if c in layout)}", x)
                for at, letter in enumerate("bth"):
                    whole = whole if letter in layout else whole.unsqueeze(at)
                expected = rotary.rotate(whole, cos, sin, "half", "bthd", 0)
                ours = rotary.rotate(x, cos, sin, "half", layout)
                back = torch.einsum(f"{''.join(c for c in 'bthd' if c in layout)}->{layout}", expected.reshape(
                    [n for n, c in zip(whole.shape, "bthd") if c in layout]))
                self.assertTrue(same_bits(ours, back), layout)
                for one, other in zip(*(torch.autograd.grad(y.square().sum(), (cos, sin)) for y in (ours, expected))):
                    torch.testing.assert_close(one, other)

    def test_rows_per_head(self):
        for pairing, layout in itertools.product(PAIRINGS, [*LAYOUTS, "hbtd", "hd"]):
            batch, tokens, at = B if "b" in layout else 1, T if "t" in layout else 1, layout.index("h")
            each = [rows(tokens, batch=batch, dtype=torch.float64) for _ in range(2)]
            cos, sin = (torch.stack(one, 2).requires_grad_() for one in zip(*each))
            x = heads(layout, torch.float64, heads=4 + 2, head_dim=11)
            for dtype in (torch.float32, torch.float64):
                alone = [
                    rotary.rotate(x.to(dtype).narrow(at, head, 1), *each[row], pairing, layout, 2)
                    for head, row in enumerate((0, 0, 1, 1, 0, 1))
                ]
                with torch.no_grad():
                    two = rotary.rotate_qk(*x.to(dtype).split([4, 2], at), cos, sin, pairing, layout, 2)
                self.assertTrue(same_bits(torch.cat(two, at), torch.cat(alone, at)), (pairing, layout))
            f = lambda x, cos, sin: rotary.rotate(x, cos, sin, pairing, layout, 2)
            self.assertTrue(gradcheck(f, (x.requires_grad_(), cos, sin), fast_mode=True))
            on_meta = rotary.rotate(*(one.to("meta") for one in (x, cos, sin)), pairing, layout, 2)
            self.assertEqual(on_meta.shape, x.shape)
        of_two = (one.detach().expand(1, T, 2, 4) for one in (cos, sin))
        with self.assertRaisesRegex(Exception, "multiple of the 2 heads"):
            rotary.rotate(heads("bthd", torch.float64), *of_two, "half", "bthd")

    def test_q_and_k_together(self):
        for layout, backward in itertools.product(LAYOUTS, [False, True]):
            q, k, (cos, sin) = heads(layout), heads(layout, torch.bfloat16, heads=1), rows()
            together = rotary.rotate_qk(q, k, cos, sin, "half", layout, 0, backward)
            for one, x in zip(together, (q, k)):
                self.assertTrue(same_bits(one, rotary.rotate(x, cos, sin, "half", layout, 0, backward)))

    def test_result_keeps_dense_strides(self):
        cos, sin = rows()
        x = heads("bhtd").transpose(1, 2).contiguous().transpose(1, 2)
        self.assertEqual(rotary.rotate(x, cos, sin, "half", "bhtd").stride(), x.stride())

    def test_partial_and_trailing_blocks_leave_the_rest_bit_for_bit(self):
        nan = torch.tensor([0x7FC12345], dtype=torch.int32).view(torch.float32)
        for layout, pairing, first in itertools.product(LAYOUTS, PAIRINGS, [0, 3, 10]):
            x = heads(layout, head_dim=18)
            x[..., :first] = nan
            x[..., first + D :] = nan
            cos, sin = rows()
            y = rotary.rotate(x, cos, sin, pairing, layout, first)
            self.assertTrue(same_bits(y, eager(x, cos, sin, pairing, layout, first)))
            self.assertTrue(same_bits(y[..., :first], x[..., :first]))

    @needs_library
    def test_in_place_equals_out_of_place_and_counts_as_a_change(self):
        dtypes = [torch.float32, torch.bfloat16, torch.float64]
        for layout, pairing, dtype in itertools.product(LAYOUTS, PAIRINGS, dtypes):
            cos, sin = rows(dtype=torch.float64 if dtype == torch.float64 else torch.float32)
            for kind, x in views(layout, dtype, head_dim=12):
                if kind == "expanded":
                    continue
                expected, version = rotary.rotate(x, cos, sin, pairing, layout, 2), x._version
                rotary.rotate_(x, cos, sin, pairing, layout, 2)
                self.assertTrue(same_bits(x, expected), (layout, pairing, dtype, kind))
                self.assertGreater(x._version, version)
        with torch.inference_mode():
            x = heads("bthd")
            expected = rotary.rotate(x, *rows(), "half", "bthd")
            self.assertEqual(expected.shape, x.shape)

    def test_the_path_of_other_devices_gives_the_same_bits(self):
        key = torch._C.DispatchKey.CompositeExplicitAutograd
        op, dtypes = rotary.rotate.default, [torch.float32, torch.float16, torch.bfloat16]
        for backward, dtype, pairing, layout in itertools.product([False, True], dtypes, PAIRINGS, LAYOUTS):
            call = (heads(layout, dtype, head_dim=11), *rows(batch=1), pairing, layout, 2, backward)
            self.assertTrue(same_bits(op._op_dk(key, *call), op(*call)), (backward, dtype, pairing, layout))

    def test_nothing_to_do_is_fine(self):
        for layout, sizes in [("bthd", {"tokens": 0}), ("bhtd", {"batch": 0}), ("thd", {"heads": 0})]:
            x = heads(layout, **sizes).requires_grad_()
            cos, sin = rows(x.shape[layout.index("t")])
            y = rotary.rotate(x, cos.requires_grad_(), sin, "half", layout)
            y.sum().backward()
            self.assertEqual((y.shape, x.grad.shape, cos.grad.abs().sum().item()), (x.shape, x.shape, 0.0))

    def test_meta_tensors_have_the_shape_strides_and_checks_of_real_ones(self):
        cos, sin = rows()
        for layout, dtype in itertools.product(LAYOUTS, [torch.float32, torch.bfloat16]):
            for kind, x in views(layout, dtype):
                real = rotary.rotate(x, cos, sin, "half", layout)
                like = torch.empty_strided(x.shape, x.stride(), dtype=dtype, device="meta")
                meta = rotary.rotate(like, cos.to("meta"), sin.to("meta"), "half", layout)
                self.assertEqual((meta.shape, meta.stride(), meta.dtype), (real.shape, real.stride(), real.dtype), kind)
        with self.assertRaisesRegex((RuntimeError, ValueError), "a row for each token of x, 5, but has 4"):
            rotary.rotate(heads("bthd").to("meta"), cos[:4].to("meta"), sin[:4].to("meta"), "half", "bthd")

    def test_wrong_calls_get_one_clear_sentence(self):
        x, (cos, sin) = heads("bthd"), rows()
        wrong = {
            "a row for each token of x, 5, but has 4": (x, cos[:4], sin[:4], "half", "bthd"),
            "batch must be 1 or that of x but got 3 and 2": (x, *rows(batch=3), "half", "bthd"),
            "pairing must be half, interleaved or interleaved_to_half but got 'neox'": (x, cos, sin, "neox", "bthd"),
            "pairing must be half, interleaved or interleaved_to_half but got 'unset'": (x, cos, sin, "unset", "bthd"),
            '"bthd", "bhtd", "tbhd" or "thd", but got "bdht"': (x, cos, sin, "half", "bdht"),
            'x must have the 3 dimensions of layout "thd" but got': (x, cos, sin, "half", "thd"),
            "must lie inside the head_dim 8": (x, *rows(pairs=5), "half", "bthd"),
            "the 8 elements that turn must lie inside the head_dim 8 of x but begin at 1": (
                x, cos, sin, "half", "bthd", 1),
            "begin at 9223372036854775807": (x, cos, sin, "half", "bthd", 2**63 - 1),
            "-1": (x, cos, sin, "half", "bthd", -1),
            "x must be float32, float16, bfloat16 or float64 but got .*[iI]nt": (x.int(), cos, sin, "half", "bthd"),
            "cos and sin must hold floats but got .*[iI]nt": (x, cos.int(), sin, "half", "bthd"),
            "pairs. but got .5, 4. and .5, 2.": (x, cos, sin[:, :2], "half", "bthd"),
            "must both be .tokens, pairs., .batch, tokens, pairs. or .batch, tokens, heads, pairs.": (
                x, cos[0], sin[0], "half", "bthd"),
            "at least one pair": (x, cos[:, :0], sin[:, :0], "half", "bthd"),
        }
        for sentence, call in wrong.items():
            sentence = r"^\[rotate\] .*" + sentence if not OURS else ""  # the package has its own, and tests them
            with self.subTest(sentence), self.assertRaisesRegex((RuntimeError, ValueError), sentence):
                rotary.rotate(*call)
        if OURS:
            return
        with self.assertRaisesRegex(RuntimeError, "overlap|distinct|stride"):
            rotary.rotate_(heads("bthd", heads=1).expand(-1, -1, H, -1), cos, sin, "half", "bthd")
        with self.assertRaisesRegex(RuntimeError, r"\[rotate_\] in place has no gradient"):
            rotary.rotate_(x.requires_grad_() * 1, cos, sin, "half", "bthd")


class Gradients(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(11)

    def test_first_and_second_derivatives_by_finite_differences(self):
        for pairing, layout in itertools.product(PAIRINGS, LAYOUTS):
            for batch in [None, 1, B] if layout != "thd" else [None, 1]:
                sizes = dict(batch=B, tokens=3, heads=2, head_dim=7)
                x = heads(layout, torch.float64, **sizes).requires_grad_()
                cos, sin = (t.requires_grad_() for t in rows(3, 2, batch, torch.float64))
                for backward in [False, True]:
                    with self.subTest(pairing=pairing, layout=layout, batch=batch, backward=backward):
                        call = lambda x, cos, sin: rotary.rotate(x, cos, sin, pairing, layout, 2, backward)
                        of_all = OURS and layout == "bthd"  # the library has neither
                        more = {"check_forward_ad": of_all, "check_batched_grad": of_all}
                        self.assertTrue(gradcheck(call, (x, cos, sin), **more))
                        self.assertTrue(gradgradcheck(call, (x, cos, sin)))

    def test_backward_in_f32_equals_that_of_the_eager_formula(self):
        for pairing, layout in itertools.product(PAIRINGS, LAYOUTS):
            x, (cos, sin) = heads(layout, head_dim=11), rows(factor=1.25)
            grad = torch.randn_like(x)
            for view in [lambda t: t, lambda t: t.transpose(0, 1).contiguous().transpose(0, 1)]:
                ours, theirs = view(x).clone().requires_grad_(), view(x).clone().requires_grad_()
                rotary.rotate(ours, cos, sin, pairing, layout, 1).backward(grad)
                eager(theirs, cos, sin, pairing, layout, 1).backward(grad)
                self.assertTrue(torch.equal(ours.grad, theirs.grad), (pairing, layout))

    def test_backward_of_an_expanded_gradient(self):
        x, (cos, sin) = heads("bthd").requires_grad_(), rows()
        rotary.rotate(x, cos, sin, "half", "bthd").sum().backward()
        expected = rotary.rotate(torch.ones_like(x), cos, sin, "half", "bthd", 0, True)
        self.assertTrue(torch.equal(x.grad, expected))

    def test_table_gradients_of_every_storage_type(self):
        dtypes = [torch.float32, torch.bfloat16, torch.float16]
        for dtype, pairing, layout in itertools.product(dtypes, PAIRINGS, LAYOUTS):
            x, grad = heads(layout, dtype), heads(layout, dtype)
            cos, sin = (t.requires_grad_() for t in rows())
            rotary.rotate(x, cos, sin, pairing, layout).backward(grad)
            wide = [t.detach().double().requires_grad_() for t in (cos, sin)]
            eager(x.double(), *wide, pairing, layout).backward(grad.double())
            for ours, theirs in zip((cos, sin), wide):
                torch.testing.assert_close(ours.grad.double(), theirs.grad, rtol=1e-5, atol=1e-5)

    def test_only_what_is_asked_for_is_made(self):
        x, (cos, sin) = heads("bthd"), rows()
        self.assertFalse(rotary.rotate(x, cos, sin, "half", "bthd").requires_grad)
        cos.requires_grad_()
        rotary.rotate(x, cos, sin, "half", "bthd").sum().backward()
        self.assertIsNotNone(cos.grad)
        self.assertIsNone(sin.grad)
        with torch.no_grad():
            self.assertFalse(rotary.rotate(x, cos, sin, "half", "bthd").requires_grad)


class Compiler(unittest.TestCase):
    def samples(self):
        for pairing, layout, dtype in [
            ("half", "bhtd", torch.float32),
            ("interleaved", "bthd", torch.bfloat16),
            ("interleaved_to_half", "tbhd", torch.float64),
            ("half", "thd", torch.float16),
        ]:
            wide = torch.float64 if dtype == torch.float64 else torch.float32
            for learned in [False, True]:
                x = heads(layout, dtype, head_dim=12).requires_grad_()
                cos, sin = (t.requires_grad_(learned) for t in rows(dtype=wide))
                yield (x, cos, sin, pairing, layout, 3)
            x = heads(layout, dtype, head_dim=12).transpose(0, 1).contiguous().transpose(0, 1)
            yield (x, *rows(dtype=wide), pairing, layout)

    def test_opcheck(self):
        torch.manual_seed(3)
        for call in self.samples():
            torch.library.opcheck(rotary.rotate.default, call)
            torch.library.opcheck(rotary.rotate_qk.default, (call[0], *call))
            if OURS:
                continue
            torch.library.opcheck(rotary.rotate_backward.default, call)
            plain = tuple(a.detach() if isinstance(a, torch.Tensor) else a for a in call)
            torch.library.opcheck(rotary.rotate_.default, plain)

    def test_compiles_as_one_graph_forward_and_backward(self):
        def score(q, k, inv_freq, positions):
            angles = positions[:, None] * inv_freq
            cos, sin = angles.cos().float(), angles.sin().float()
            q = rotary.rotate(q * 2, cos, sin, "half", "bhtd")
            k = rotary.rotate(k, cos, sin, "half", "bhtd")
            return (q @ k.transpose(-1, -2)).square().mean()

        def outcome(function, q, k, inv_freq, positions):
            leaves = [t.clone().requires_grad_() for t in (q, k, inv_freq)]
            loss = function(*leaves, positions)
            loss.backward()
            return [loss.detach()] + [t.grad for t in leaves]

        torch.manual_seed(5)
        inv_freq = 100.0 ** (-torch.arange(8, dtype=torch.float64) / 8)
        for options in [{}, {"dynamic": True}]:
            torch._dynamo.reset()
            compiled = torch.compile(score, fullgraph=True, **options)
            for tokens in [6, 9, 17]:
                q, k = torch.randn(2, 3, tokens, 16), torch.randn(2, 3, tokens, 16)
                eagerly = outcome(score, q, k, inv_freq, torch.arange(tokens))
                together = outcome(compiled, q, k, inv_freq, torch.arange(tokens))
                for a, b in zip(eagerly, together):
                    torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)

    @needs_library
    def test_compiles_in_place(self):
        def step(x, cos, sin):
            y = x + 1
            rotary.rotate_(y, cos, sin, "interleaved", "bthd")
            return y * 2

        x, (cos, sin) = heads("bthd"), rows()
        compiled = torch.compile(step, fullgraph=True)
        self.assertTrue(torch.equal(compiled(x, cos, sin), step(x, cos, sin)))


def run(library):
    """The tests of the main module, with the library or the package loaded."""
    if library == "package":
        import rotary.torch  # noqa: F401
    else:
        torch.ops.load_library(library)
    result = unittest.main(exit=False, verbosity=2).result
    bad = len(result.failures) + len(result.errors)
    name = sys.argv[0].rpartition("/")[2].removesuffix(".py")
    print(f"{name}: {result.testsRun - bad} of {result.testsRun} tests passed with torch {torch.__version__}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: test_op.py LIBRARY|package [TEST...]")
    run(sys.argv.pop(1))
