"""rotary.patch: the tables that it compares, replaces, restores and refuses."""

import unittest

import rotary
import tiny_models
from support import refused
from tiny_models import LLAMA3, ids, left_padded, logits, needs_transformers, small_config, torch, transformers


def new_model(name, seed=0, head="ForCausalLM", **values):
    """A tiny model of transformers, by the beginning and the end of its class's name."""
    config = getattr(transformers, f"{name}Config")
    return tiny_models.tiny(config, getattr(transformers, f"{name.removesuffix('Text')}{head}"), seed, values)


def llama(seed=0, **values):
    return new_model("Llama", seed, **values)


def apart(now, before):
    """The largest difference relative to the largest number."""
    return float((now - before).abs().max() / before.abs().max())


@needs_transformers
class Case(unittest.TestCase):
    def refused(self, model, code, *words, **how):
        """Checks that rotary.patch refuses the model and changes nothing."""
        sentence = refused(self, code, lambda: rotary.patch(model, **how))
        for word in ("[patch] ", *words):
            self.assertIn(word, sentence)
        self.assertFalse([path for path, part in model.named_modules() if "forward" in vars(part)])


class Compared(Case):
    def test_report(self):
        model = llama()
        before = logits(model, input_ids=ids())
        with rotary.patch(model) as report:
            (table,) = report.tables
            self.assertEqual((table.path, table.kind), ("model.rotary_emb", "LlamaRotaryEmbedding"))
            self.assertEqual((table.ropes[0].base, table.rows, report.model_type), (10000.0, "halves", "llama"))
            self.assertGreater(table.difference, 0)
            self.assertLess(table.difference, 1e-5)
            for words in ("model.rotary_emb", "half, base 10000", "rows halves", "of the model"):
                self.assertIn(words, str(report))
            self.assertTrue(torch.equal(logits(model, input_ids=ids()), before))
        self.assertIn("undone", str(report))

    def test_what_the_config_does_not_say(self):
        model = llama()
        model.config.rope_parameters["rope_theta"] = 20000.0
        self.refused(model, "ROPE", "model.rotary_emb", "base 20000")
        model = llama()
        model.model.rotary_emb.inv_freq.mul_(1.0 + 2e-5)
        self.refused(model, "ROPE", "are others than a new module of it makes", 'tables="exact"')
        self.refused(llama().bfloat16().float(), "ROPE", 'tables="exact"')  # inv_freq was rounded to 8 bits
        model = llama(rope_parameters={**LLAMA3, "original_max_position_embeddings": 64})
        model.model.rotary_emb.attention_scaling = 1.01
        self.refused(model, "ROPE", "model.rotary_emb")
        self.refused(llama().to("meta"), "DEVICE", "model.rotary_emb", 'tables="exact"')

    def test_what_is_no_table_of_a_rope(self):
        for wrong in (None, torch.nn.Linear(2, 2), "Llama"):
            with self.assertRaises(TypeError):
                rotary.patch(wrong)
        self.refused(llama(), "VALUE", tables="exakt")
        self.refused(new_model("GPT2", head="LMHeadModel"), "ROPE", "has no rotary module")

    def test_rows_that_attentions_keep(self):
        model = new_model("GPTJ")
        self.assertEqual(rotary.patch(model).unread, ("transformer.h.0.attn", "transformer.h.1.attn"))
        self.refused(model, "TORCH", "transformer.h.0.attn", tables="exact")
        model.transformer.h[1].attn.embed_positions.mul_(1.001)
        self.refused(model, "ROPE", "the buffers of transformer.h.1.attn")

    def test_a_tower_that_takes_no_positions(self):
        model = transformers.Llama4VisionModel._from_config(small_config(transformers.Llama4VisionConfig))
        self.assertEqual(rotary.patch(model).unread, ("rotary_embedding",))
        model.rotary_embedding.freqs_ci.zero_()
        self.refused(model, "ROPE", "the buffers of rotary_embedding", "load the model again")


class Exact(Case):
    def test_rows_are_rotarys(self):
        model = llama()
        own, places = model.model.rotary_emb, torch.tensor([[0, 1, 300], [5, 6, 7]])
        before = own(torch.zeros(1), places)
        with rotary.patch(model, tables="exact") as report:
            table = rotary.Table(rotary.config(model.config)[0], places.numpy())
            exact = [torch.tensor(rows).repeat(1, 1, 2) for rows in (table.cos, table.sin)]
            now = own(torch.zeros(1), places)
            self.assertTrue(all(map(torch.equal, now, exact)))
            self.assertEqual(own(torch.zeros(1).bfloat16(), places)[0].dtype, torch.bfloat16)
            self.assertEqual(own(torch.zeros(1, device="meta"), places)[0].device.type, "meta")
            self.assertIn("exact", str(report))
            with self.assertRaisesRegex(rotary.Error, "replaced already"):
                rotary.patch(model, tables="exact")
        report.undo()  # once more does nothing
        self.assertNotIn("forward", vars(own))
        self.assertTrue(all(map(torch.equal, own(torch.zeros(1), places), before)))

    def test_before_there_is_memory(self):
        """A model on meta is patched before it is filled, as in trainers: no checkpoint has inv_freq."""
        right = llama(rope_parameters={**LLAMA3, "original_max_position_embeddings": 64})
        with torch.device("meta"):
            model = type(right)._from_config(right.config)
        with rotary.patch(model, tables="exact"):
            model.to_empty(device="cpu").eval().load_state_dict(right.state_dict())
            self.assertLess(apart(logits(model, input_ids=ids()), logits(right, input_ids=ids())), 2e-6)

    def test_compiled(self):
        """Patched models compile without a graph break, to few graphs for several lengths; older graphs are dropped."""
        for family in ("llama", "deepseek_v3", "gpt_neox"):
            with self.subTest(family):
                torch.compiler.reset()
                model, graphs = tiny_models.decoder(family), []

                def backend(graph, inputs):
                    graphs.append(graph)
                    return graph.forward

                compiled = torch.compile(model, fullgraph=True, backend=backend)
                inputs = [ids(2, length) for length in (24, 17, 9, 12)]
                run = lambda one: [logits(one, input_ids=x, use_cache=False) for x in inputs]  # noqa: E731
                before = run(compiled)
                graphs.clear()
                with rotary.patch(compiled, tables="exact"):
                    self.assertTrue(all(map(torch.equal, run(compiled), run(model))))
                    self.assertLessEqual(len(graphs), 2)
                    self.assertTrue(any(node.target == "double" for node in graphs[0].graph.nodes))  # as rotary's rows
                self.assertTrue(all(map(torch.equal, run(compiled), before)))
        torch.compiler.reset()


def towers():
    """A name, a model with a picture tower, and a function that runs the tower on random patches."""

    def patches(*shape):
        return torch.randn(shape, generator=torch.Generator().manual_seed(0))

    for name in ("Qwen2_5_VL", "Glm4v"):
        model = new_model(name, head="ForConditionalGeneration")
        vision = model.config.vision_config
        size = 3 * vision.temporal_patch_size * vision.patch_size**2
        grid = torch.tensor([[1, 8, 12]])
        yield name, model, lambda m=model, n=size, g=grid: m.model.visual(patches(96, n), grid_thw=g)[0]
    model = new_model("Gemma4Vision", head="Model")
    places = torch.cartesian_prod(torch.arange(6), torch.arange(9))[None]
    size = 3 * model.config.patch_size**2
    yield "Gemma4", model, lambda m=model: m(patches(1, 54, size), places)[0]


class Families(Case):
    def test_towers(self):
        for name, model, run in towers():
            with self.subTest(name), torch.no_grad():
                before = run()
                self.assertTrue(before.isfinite().all())
                self.assertTrue(any(table.positions.endswith("axes last") for table in rotary.patch(model).tables))
                with rotary.patch(model, tables="exact"):
                    self.assertLess(apart(run(), before), 1e-5)

    def test_every_decoder(self):
        """Healthy models pass. A model without its frequencies is refused, and exact rows give it the same logits."""
        passed, wrong = 0, {}
        for model_type, *classes in tiny_models.decoder_classes():
            try:
                model = tiny_models.tiny(*classes)
                before = logits(model, **left_padded())
            except Exception:
                continue
            try:
                tables = rotary.patch(model).tables
            except rotary.Error as error:
                self.assertIn("has no rotary module", str(error), model_type)
                continue
            for path in {table.path for table in tables}:
                for buffer in model.get_submodule(path).buffers():
                    buffer.mul_(0.9)
            if torch.equal(logits(model, **left_padded()), before):
                continue  # GPT-J has no rotary module, and Phi-MoE's makes its frequencies in each call
            passed += 1
            with self.subTest(model_type):
                self.refused(model, "ROPE", 'tables="exact"')
            with rotary.patch(model, tables="exact"):
                now = logits(model, **left_padded())
            if not apart(now, before) < 1e-5:
                wrong[model_type] = apart(now, before)
        self.assertEqual(wrong, {})
        self.assertGreaterEqual(passed, 115)
