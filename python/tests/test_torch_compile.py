"""RotaryEmbedding, torch.compile and torch.export."""

import copy
import io
import itertools
import pickle
import unittest

import rotary
from support import run_python
from torch_support import PAIRINGS, needs_torch, refused, rows_of, table_of, torch, turned

if torch is not None:
    from torch._dynamo.testing import CompileCounterWithBackend
    from torch._inductor.compile_fx import compile_fx

    class Model(torch.nn.Module):
        def __init__(self, **words):
            super().__init__()
            self.rope = rotary.RotaryEmbedding(head_dim=16, pairing="half", layout="bhtd", **words)
            self.q = torch.nn.Linear(32, 32)
            self.k = torch.nn.Linear(32, 16)

        def forward(self, x, offset=0):
            q = self.q(x).unflatten(-1, (2, 16)).transpose(1, 2)
            k = self.k(x).unflatten(-1, (1, 16)).transpose(1, 2)
            q, k = self.rope(q, k, offset=offset)
            return q @ k.transpose(-1, -2)


def compiled(function, backend="aot_eager"):
    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    return torch.compile(function, fullgraph=True, backend=counter), counter


@needs_torch
class Compile(unittest.TestCase):
    def test_lengths_and_tables(self):
        """Four lengths take two graphs, and no call uses the rows of another call's table."""
        for backend in ("aot_eager", "inductor"):
            run, counter = compiled(lambda q, k, t: rotary.rotate_qk(q, k, t, layout="bhtd"), backend)
            for tokens, start in itertools.product((5, 7, 9, 12), (0, 100)):
                q, k = torch.randn(2, 4, tokens, 16), torch.randn(2, 1, tokens, 16).bfloat16()
                table = table_of(positions=range(start, start + tokens))
                expected, got = rotary.rotate_qk(q, k, table, layout="bhtd"), run(q, k, table)
                self.assertTrue(all(map(torch.equal, got, expected)))
                self.assertEqual([y.stride() for y in got], [y.stride() for y in expected])
            self.assertLessEqual(counter.frame_count, 2)

    def test_one_token_is_fused(self):
        """The graph for one token holds torch's own ops alone, which the compiler fuses, with the kernels' bits."""

        def backend(graph, inputs):
            names.update(str(node.target) for node in graph.graph.nodes)
            return compile_fx(graph, inputs) if tokens == 1 else graph.forward

        cases = [(pairing, dtype, 1) for pairing in PAIRINGS for dtype in (torch.float32, torch.bfloat16)]
        for pairing, dtype, tokens in (*cases, ("half", torch.float32, 2)):
            names = set()
            table = table_of(pairing, range(70000, 70000 + tokens))
            q, k = torch.randn(2, 4, tokens, 16).to(dtype), torch.randn(2, 1, tokens, 16).to(dtype)
            run, _ = compiled(lambda q, k: rotary.rotate_qk(q, k, table, layout="bhtd"), backend)  # noqa: B023
            self.assertTrue(all(map(torch.equal, run(q, k), rotary.rotate_qk(q, k, table, layout="bhtd"))))
            self.assertEqual(any("rotary" in name for name in names), tokens > 1)

    def test_tables_that_are_closed_over(self):
        class Cell:
            table = table_of()

        x = torch.randn(5, 3, 16)
        run, _ = compiled(lambda x: rotary.rotate(x, Cell.table, layout="thd"))
        tables = [table_of(positions=positions) for positions in (range(5), range(50, 55), range(5))]
        for Cell.table in (*tables, table_of("interleaved"), rotary.from_rows(*rows_of(tables[0]), pairing="half")):
            self.assertTrue(torch.equal(run(x), rotary.rotate(x, Cell.table, layout="thd")))

    def test_gradients(self):
        def step(q, k, cos, sin):
            table = rotary.from_doubled(torch.cat((cos, cos), -1), torch.cat((sin, sin), -1), pairing="half")
            q, k = rotary.rotate_qk(q, k, table, layout="bthd")
            return (q.pow(2).sum(-1) * k.sum(-1)).sum()

        inputs = [torch.randn(2, 5, 1, 16), torch.randn(2, 5, 1, 16), *rows_of(table_of())]
        inputs = [one.requires_grad_() for one in inputs]
        expected = torch.autograd.grad(step(*inputs), inputs)
        for backend in ("aot_eager", "inductor"):
            got = torch.autograd.grad(compiled(step, backend)[0](*inputs), inputs)
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)

    def test_the_whole_family(self):
        table, x = table_of(), torch.randn(2, 5, 4, 16)

        def family(x):
            y, packed, other = x.clone(), x.clone(), x.clone()
            rotary.rotate_(y, table, layout="bthd")
            rotary.rotate_(packed[:, :, :3], table, layout="bthd")
            rotary.rotate_qk_(other, other2 := x * 2, table, layout="bthd", direction="backward")
            out = rotary.rotate(x, table, layout="bthd", out=torch.empty_like(x), first=2)
            back = rotary.rotate(x, table, layout="bthd", direction="backward")
            whole = rotary.rotate(x.double(), table, layout="bthd")
            scaled = rotary.rotate_qk(x, x, table, layout="bthd", query_scale=torch.arange(1.0, 6))
            return y, packed, other, other2, out, back, whole, *scaled

        run, counter = compiled(family)
        self.assertTrue(all(map(torch.equal, run(x), family(x))))
        self.assertEqual(counter.frame_count, 1)

    def test_the_first_call_of_a_process(self):
        """A function compiles although rotary._torch was never imported, also with vmap, grad and jvp in it."""
        run_python("-c", """
import rotary, torch
table = rotary.Table(rotary.Rope(head_dim=16, pairing="half"), range(5))
f = lambda x: rotary.rotate(x, table, layout="thd")
g = torch.func.grad(lambda x: torch.func.vmap(f)(x).pow(3).sum())
h = lambda x: torch.func.jvp(lambda x: f(x).sin(), (x,), (x,))[1]
for function, x in ((f, torch.randn(5, 3, 16)), (g, torch.randn(2, 5, 3, 16)), (h, torch.randn(5, 3, 16))):
    torch.testing.assert_close(torch.compile(function, fullgraph=True, backend="aot_eager")(x), function(x))
""")


@needs_torch
class Module(unittest.TestCase):
    def setUp(self):
        self.q, self.k = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 5, 16)

    def test_positions(self):
        rope = rotary.RotaryEmbedding(head_dim=16, base=500.0, pairing="interleaved")
        ids = [[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]]
        for positions, words in (
            (range(5), {}),
            (range(7, 12), {"offset": 7}),
            (range(7, 12), {"offset": torch.tensor(7)}),
            (ids, {"offset": torch.tensor([3, 0])}),
            (ids, {"positions": torch.tensor(ids)}),
            (ids, {"positions": ids}),
            ([0.5, 1, 2, 3, 4], {"positions": torch.tensor([0.5, 1, 2, 3, 4])}),
        ):
            expected = rotary.rotate_qk(self.q, self.k, rotary.Table(rope.rope, positions), layout="bhtd")
            got = *rope(self.q, self.k, layout="bhtd", **words), rope(self.q, layout="bhtd", **words)
            self.assertTrue(all(map(torch.equal, got, (*expected, expected[0]))), words)

    def test_positions_of_every_kind_in_one_graph(self):
        rope = rotary.RotaryEmbedding(head_dim=16, pairing="half", layout="bhtd")
        expected = rope(self.q, self.k, offset=3)
        for positions in (range(3, 8), [3, 4, 5, 6, 7], [3.0, 4, 5, 6, 7], torch.arange(3, 8)):
            for turn in (lambda q, k: rope(q, k, positions),  # noqa: B023
                         lambda *both: rotary.rotate_qk(*both, rope.table(positions), layout="bhtd")):  # noqa: B023
                self.assertTrue(all(map(torch.equal, compiled(turn)[0](self.q, self.k), expected)), positions)
        run, _ = compiled(lambda q: rope(q, positions=7))
        self.assertTrue(torch.equal(run(self.q[:, :, :1]), rope(self.q[:, :, :1], positions=7)))
        wide = self.q.double(), self.k.double()
        for got, wanted in zip(compiled(rope)[0](*wide), rope(*wide), strict=True):
            torch.testing.assert_close(got, wanted, rtol=0, atol=1e-15)
        with self.assertRaisesRegex(TypeError, "offset must be an int, or a tensor of integers"):
            rope(self.q, offset=[3, 9])
        self.assertEqual(rope(self.q.to("meta")).device.type, "meta")

    def test_ropes(self):
        several = rotary.Rope(head_dim=16, pairing="half", axis=rotary.makers.sectioned_axes([4, 2, 2]))
        ids = torch.arange(30).view(3, 2, 5)
        expected = rotary.rotate(self.q, rotary.Table(several, ids.numpy()), layout="bhtd")
        self.assertTrue(torch.equal(rotary.RotaryEmbedding(several)(self.q, positions=ids, layout="bhtd"), expected))
        entry = rotary.config({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4,
                               "num_hidden_layers": 1, "max_position_embeddings": 128})[0]  # fmt: skip
        speeds = rotary.frequencies(entry.rope)
        expected = rotary.rotate(self.q, rotary.Table(entry.rope, range(5)), layout="bhtd")
        for source in (entry, entry.rope, speeds):
            rope = rotary.RotaryEmbedding(source, layout="bhtd")
            for run in (rope, compiled(rope)[0]):
                self.assertTrue(torch.equal(run(self.q), expected))

    def test_several_ropes(self):
        """A graph holds two ropes, as Gemma 3's, and layers whose ropes are equal share a graph."""
        first, other, equal = (rotary.RotaryEmbedding(head_dim=16, base=base, pairing="half", layout="bhtd")
                               for base in (500.0, 1e4, 500.0))  # fmt: skip
        run, _ = compiled(lambda q: first(q) + other(q))
        self.assertTrue(torch.equal(run(self.q), first(self.q) + other(self.q)))
        run, counter = compiled(lambda rope, q: rope(q))
        for rope in (first, equal, copy.deepcopy(first), other):
            self.assertTrue(torch.equal(run(rope, self.q), rope(self.q)))
        if torch.__version__ >= (2, 5):  # before, a graph was a module's own
            self.assertEqual(counter.frame_count, 2)

    def test_a_rope_of_one_axis_takes_its_own_of_all(self):
        second = rotary.config({"_class_name": "AllegroTransformer3DModel"})[1]
        module, places = rotary.RotaryEmbedding(second, layout="bhtd"), torch.arange(15).reshape(3, 5) % 7
        q = torch.randn(1, 2, 5, 96)
        expected = rotary.rotate(q, rotary.Table(second, places), layout="bhtd", first=second.first)
        self.assertTrue(torch.equal(module(q, positions=places), expected))
        torch.testing.assert_close(compiled(module)[0](q, positions=places), expected, rtol=0, atol=1e-6)

    def test_an_offset_of_each_row(self):
        """It is the same on every axis, also where there are as many rows as axes."""
        several = rotary.Rope(head_dim=16, pairing="half", axis=rotary.makers.sectioned_axes([4, 2, 2]))
        for source in (several, rotary.config({"_class_name": "AllegroTransformer3DModel"})[1]):
            rope, q = rotary.RotaryEmbedding(source, layout="bhtd"), torch.randn(3, 2, 5, source.head_dim)
            rows = [rope(q[at : at + 1], offset=offset) for at, offset in enumerate((3, 0, 7))]
            self.assertTrue(torch.equal(rope(q, offset=torch.tensor([3, 0, 7])), torch.cat(rows)))

    def test_keys_take_the_inverse_of_xpos(self):
        scaled = rotary.Rope(head_dim=16, pairing="half", xpos=rotary.scalings.XPos(scale=8, center=2))
        inverse = scaled.replace(xpos=rotary.scalings.XPos(scale=8, center=2, reciprocal=True))
        k = torch.randn(2, 1, 5, 16)
        by_hand = [rotary.rotate(x, rotary.Table(of, range(3, 8)), layout="bhtd")
                   for x, of in ((self.q, scaled), (k, inverse))]  # fmt: skip
        self.assertFalse(torch.equal(by_hand[1], rotary.rotate(k, rotary.Table(scaled, range(3, 8)), layout="bhtd")))
        for source in (scaled, rotary.frequencies(scaled)):
            rope = rotary.RotaryEmbedding(source, layout="bhtd")
            run, _ = compiled(rope)
            for turned in (rope(self.q, k, offset=3), run(self.q, k, offset=3)):
                self.assertTrue(all(map(torch.equal, turned, by_hand)))
        for q, kind, turn in itertools.product((self.q, self.q.clone().requires_grad_()),
                                               (torch.float32, torch.float64), (rotary.rotate_qk, rotary.rotate_qk_)):
            with self.assertRaisesRegex(rotary.Error, "must have no xPos"):
                turn(q, k, rope.table(range(5), dtype=kind), layout="bhtd")
        turn = compiled(lambda q, k, places: rotary.rotate_qk(q, k, rope.table(places), layout="bhtd"))[0]
        with self.assertRaisesRegex(Exception, "must have no xPos"):  # a table of tensors
            turn(self.q, k, torch.arange(5))

    def test_dynamic_scaling_takes_the_length_of_the_call(self):
        scaled = rotary.Rope(head_dim=16, pairing="half", scaling=rotary.scalings.Dynamic(factor=4, trained_length=4))
        rope = rotary.RotaryEmbedding(scaled, layout="bhtd")
        for run in (rope, compiled(rope)[0]):
            for offset, length in ((0, None), (30, None), (0, 99)):
                table = rotary.Table(scaled, range(offset, offset + 5), length)
                expected = rotary.rotate(self.q, table, layout="bhtd")
                self.assertTrue(torch.equal(run(self.q, offset=offset, length=length), expected))

    def test_compile_with_dynamic_tokens(self):
        """Lengths that differ, and an offset that grows, take two graphs."""
        rope = rotary.RotaryEmbedding(head_dim=16, pairing="half", layout="bhtd")
        prefill, decode = [(tokens, 3) for tokens in (5, 7, 9, 12)], [(1, step) for step in range(2, 8)]
        for backend, calls in (("inductor", prefill), ("aot_eager", decode)):
            run, counter = compiled(rope, backend)
            for tokens, offset in calls:
                q, k = torch.randn(2, 4, tokens, 16), torch.randn(2, 1, tokens, 16)
                self.assertTrue(all(map(torch.equal, run(q, k, offset=offset), rope(q, k, offset=offset))))
            self.assertLessEqual(counter.frame_count, 2)

    def test_nothing_can_be_harmed(self):
        rope = rotary.RotaryEmbedding(head_dim=16, pairing="half", layout="bhtd")
        expected = rope(self.q, offset=1000)
        self.assertEqual((list(rope.parameters()), list(rope.buffers()), dict(rope.state_dict())), ([], [], {}))
        with torch.device("meta"):
            loaded = Model()
            self.assertEqual(loaded(torch.zeros(1, 5, 32)).device.type, "meta")
        model, x = Model(), torch.randn(2, 5, 32)
        loaded.to_empty(device="cpu").load_state_dict(model.state_dict())
        self.assertTrue(torch.equal(loaded(x), model(x)))
        for other in (
            copy.deepcopy(rope), pickle.loads(pickle.dumps(rope)), copy.deepcopy(rope).to(torch.bfloat16), loaded.rope,
            copy.deepcopy(rope).half().float(), copy.deepcopy(rope).to("meta").to_empty(device="cpu"),
        ):  # fmt: skip
            self.assertTrue(torch.equal(other(self.q, offset=1000), expected))

    def test_precision_of_the_table_is_not_that_of_the_model(self):
        rope = rotary.RotaryEmbedding(head_dim=16, pairing="half", layout="bhtd").to(torch.bfloat16)
        table = rotary.Table(rotary.Rope(head_dim=16, pairing="half"), range(131000, 131005))
        for dtype in (torch.bfloat16, torch.float16):
            q = self.q.to(dtype)
            self.assertTrue(torch.equal(rope(q, offset=131000), turned(q, table, "bhtd")))
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(Model()(torch.randn(2, 5, 32)).dtype, torch.bfloat16)

    def test_export(self):
        model = Model().eval()
        x = torch.randn(2, 5, 32)
        tokens = torch.export.Dim("tokens", min=2, max=4096)
        for strict in (True, False):
            program = torch.export.export(model, (x,), dynamic_shapes={"x": {1: tokens}}, strict=strict)
            kept = io.BytesIO()
            torch.export.save(program, kept)
            kept.seek(0)
            loaded = torch.export.load(kept).module()
            for count in (5, 2, 40):
                y = torch.randn(2, count, 32)
                torch.testing.assert_close(loaded(y), model(y), rtol=0, atol=1e-6)
            called = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
            ours = {name for name in called if not name.startswith(("aten.", "<built-in", "sym_"))}
            self.assertEqual(ours, {"rotary.rotate_qk.default"})  # librotary_torch.so has it
            one = torch.export.export(model, (x[:, :1],), strict=strict)
            self.assertNotIn("rotary", str(one.graph))  # one token needs nothing
            y = torch.randn(2, 9, 32, requires_grad=True)  # an exported program can be trained
            expected = torch.autograd.grad(model(y).pow(2).sum(), y)[0]
            torch.testing.assert_close(torch.autograd.grad(loaded(y).pow(2).sum(), y)[0], expected)

    def test_errors(self):
        rope = rotary.RotaryEmbedding(head_dim=16, pairing="half")
        for code, call, words in (
            ("PAIRING", rotary.RotaryEmbedding, {"head_dim": 16, "pairing": None}),
            ("VALUE", rotary.RotaryEmbedding, {"head_dim": 16, "pairing": "half", "angles": "near"}),
            ("SHAPE", rope, {"q": self.q}), ("SHAPE", rope, {"q": self.q, "positions": [1, 2], "layout": "bhtd"}),
            ("VALUE", rope, {"q": self.q, "positions": range(5), "offset": 3, "layout": "bhtd"}),
        ):  # fmt: skip
            refused(self, code, lambda: call(**words))  # noqa: B023
        for words in ({}, {"rope": rope.rope, "head_dim": 16}, {"rope": 64}):
            with self.assertRaises(TypeError):
                rotary.RotaryEmbedding(**words)
