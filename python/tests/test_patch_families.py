"""rotary.patch on tiny random models of every decoder of transformers: the same logits, gradients and tokens."""

import unittest
from unittest import mock

import rotary
import tiny_models
from tiny_models import Outcome, decoder, gradients, ids, left_padded, logits, needs_transformers, torch, transformers

if transformers is not None:
    from rotary._torch import entry

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}


def tiny(name, head, **values):
    classes = getattr(transformers, f"{name}Config"), getattr(transformers, f"{name}{head}")
    return tiny_models.tiny(*classes, values=values)


def named():
    """(a name, a tiny model) of the families that must work, whatever transformers has besides."""
    for family in "llama qwen3 gemma3_text deepseek_v3 gpt_neox gptj nanochat glm4 cohere phi3".split():
        yield family, decoder(family)
    for name, rope in (("llama with llama3", tiny_models.LLAMA3), ("llama with yarn", YARN)):
        yield name, tiny("Llama", "ForCausalLM", rope_parameters=dict(rope))
    yield "qwen2_5_vl", tiny("Qwen2_5_VL", "ForConditionalGeneration")
    yield "modernbert", tiny("ModernBert", "ForMaskedLM")


@needs_transformers
class Named(unittest.TestCase):
    def test_families(self):
        for name, model in named():
            with self.subTest(name):
                before = Outcome(model, generates=name != "modernbert")
                with rotary.patch(model) as report:
                    self.assertEqual(before.wrong_logits(), 0.0)
                    self.assertLessEqual(before.wrong_gradients(), 1e-10)
                    self.assertEqual(before.tokens is None, name == "modernbert")
                    self.assertEqual(before.other_tokens(), 0)
                    kept = [function.reason for function in report.functions if not function.replaced]
                    self.assertEqual(kept != [], name == "gptj", kept)  # q and k apart, by single rows
                self.assertEqual(before.wrong_logits(), 0.0)

    def test_what_they_are_proved_to_be(self):
        told = {
            "deepseek_v3": {("half", "halves"), ("interleaved_to_half", "halves")},
            "gptj": {("interleaved", "single")},
            "glm4": {("interleaved", "halves")},
            "cohere": {("interleaved", "neighbours")},
            "gpt_neox": {("half", "halves")},
        }
        for family, kinds in told.items():
            with self.subTest(family), rotary.patch(decoder(family)) as report:
                found = {(f.proof.behaviour.pairing, f.proof.behaviour.rows) for f in report.functions}
                self.assertEqual(found, kinds)

    def test_checkpointing_and_static_cache(self):
        model = decoder("llama")
        words = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "disable_compile": True}

        def outcome():
            return model.generate(**left_padded(), **words, cache_implementation="static"), gradients(model.train())

        model.gradient_checkpointing_enable()
        before = outcome()
        with rotary.patch(model.eval()):
            after = outcome()
        self.assertTrue(torch.equal(after[0], before[0]))
        self.assertTrue(all(torch.equal(after[1][name], gradient) for name, gradient in before[1].items()))

    def test_compiled(self):
        """Without a graph break, and with few graphs for several lengths."""
        for family in ("llama", "deepseek_v3", "gpt_neox"):
            for tables in ("model", "exact"):
                with self.subTest(family, tables=tables):
                    torch.compiler.reset()
                    model, graphs = decoder(family), []

                    def backend(graph, inputs):
                        graphs.append(graph)
                        return graph.forward

                    with rotary.patch(model, tables=tables):
                        inputs = [ids(2, length) for length in (24, 17, 9, 12)]
                        before = [logits(model, input_ids=x, use_cache=False) for x in inputs]
                        compiled = torch.compile(model, fullgraph=True, backend=backend)
                        now = [logits(compiled, input_ids=x, use_cache=False) for x in inputs]
                    self.assertTrue(all(map(torch.equal, before, now)))
                    self.assertLessEqual(len(graphs), 2)
                    called = [str(node.target) for node in graphs[0].graph.nodes if node.op == "call_function"]
                    self.assertTrue(any(name.startswith("rotary") and ".rotate" in name for name in called), called)
        torch.compiler.reset()


def towers():
    """(a name, a model with a picture tower, what the tower makes of random patches)."""

    def patches(*shape):
        return torch.randn(shape, generator=torch.Generator().manual_seed(0))

    for name in ("Qwen2_5_VL", "Glm4v"):
        model = tiny(name, "ForConditionalGeneration")
        vision = model.config.vision_config
        size = 3 * vision.temporal_patch_size * vision.patch_size**2
        grid = torch.tensor([[1, 8, 12]])
        yield name, model, lambda m=model, n=size, g=grid: m.model.visual(patches(96, n), grid_thw=g)[0]
    model = tiny("Gemma4Vision", "Model")
    places = torch.cartesian_prod(torch.arange(6), torch.arange(9))[None]
    size = 3 * model.config.patch_size**2
    yield "Gemma4", model, lambda m=model: m(patches(1, 54, size), places)[0]


@needs_transformers
class Pictures(unittest.TestCase):
    def test_towers(self):
        for name, model, run in towers():
            with self.subTest(name), torch.no_grad():
                before = run()
                self.assertTrue(before.isfinite().all())
                with rotary.patch(model) as report:
                    with mock.patch.object(entry, "rotate_qk", side_effect=entry.rotate_qk) as turns:
                        self.assertTrue(torch.equal(run(), before))
                    self.assertEqual(turns.call_count, 0 if name == "Gemma4" else 2)  # Gemma 4's is proved and kept
                    self.assertTrue(any(table.positions.endswith("axes last") for table in report.tables))
                with rotary.patch(model, tables="exact"):
                    exact = run()
                self.assertLess(float((exact - before).abs().max() / before.abs().max()), 1e-5)


@needs_transformers
class Every(unittest.TestCase):
    def test_decoders(self):
        """Logits of every decoder that tiny_models makes; tools/patch_transformers.py tries gradients too."""
        equal, wrong = 0, {}
        for model_type, *classes in tiny_models.decoder_classes():
            try:
                model = tiny_models.tiny(*classes)
                before = logits(model, **left_padded())
            except Exception:
                continue
            try:
                report = rotary.patch(model)
            except rotary.PatchError as error:
                self.assertTrue("calls none" in str(error) or model_type == "roformer", error)
                continue
            with report:
                now = logits(model, **left_padded())
            fused = any(function.proof.bits == "fused" for function in report.functions)
            equal += torch.equal(now, before)
            if not (torch.allclose(now, before, rtol=1e-5, atol=1e-6) if fused else torch.equal(now, before)):
                wrong[model_type] = float((now - before).abs().max())
        self.assertEqual(wrong, {})
        self.assertGreaterEqual(equal, 100)
