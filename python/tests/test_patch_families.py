"""rotary.patch on tiny random models of every decoder of transformers: the same logits, gradients and tokens."""

import collections
import unittest
from unittest import mock

import rotary
from patch_support import needs_transformers, torch, transformers

if transformers is not None:
    import tiny_models
    from rotary._torch import entry
    from tiny_models import Outcome, gradients, ids, left_padded, logits

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 128}


def llama(**values):
    return tiny_models.tiny(transformers.LlamaConfig, transformers.LlamaForCausalLM, values=values)


def named():
    """(a name, a tiny model) of the families that must work, whatever transformers has besides."""
    for family in "llama qwen3 gemma3_text deepseek_v3 gpt_neox gptj nanochat glm4 cohere phi3".split():
        yield family, tiny_models.decoder(family)
    for name, rope in (("llama with llama3", tiny_models.LLAMA3), ("llama with yarn", YARN)):
        yield name, llama(rope_parameters=dict(rope))
    config = transformers.Qwen2_5_VLConfig
    yield "qwen2_5_vl", tiny_models.tiny(config, transformers.Qwen2_5_VLForConditionalGeneration)
    yield "modernbert", tiny_models.tiny(transformers.ModernBertConfig, transformers.ModernBertForMaskedLM)


@needs_transformers
class Named(unittest.TestCase):
    def test_families(self):
        for name, model in named():
            with self.subTest(name):
                masked = name == "modernbert"
                before = Outcome(model, generates=not masked)
                with rotary.patch(model) as report:
                    self.assertEqual(before.wrong_logits(), 0.0)
                    self.assertLessEqual(before.wrong_gradients(), 1e-10)
                    if not masked:
                        self.assertIsNotNone(before.tokens)
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
            with self.subTest(family), rotary.patch(tiny_models.decoder(family)) as report:
                found = {(f.proof.behaviour.pairing, f.proof.behaviour.rows) for f in report.functions}
                self.assertEqual(found, kinds)

    def test_checkpointing(self):
        model = llama().train()
        model.gradient_checkpointing_enable()
        before = gradients(model)
        with rotary.patch(model):
            after = gradients(model)
        self.assertTrue(all(torch.equal(after[name], gradient) for name, gradient in before.items()))

    def test_static_cache(self):
        model = llama()
        words = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "cache_implementation": "static"}
        words["disable_compile"] = True
        before = model.generate(**left_padded(), **words)
        with rotary.patch(model):
            self.assertTrue(torch.equal(model.generate(**left_padded(), **words), before))

    def test_compiled(self):
        """Without a graph break, and with few graphs for several lengths."""
        for family in ("llama", "deepseek_v3", "gpt_neox"):
            for tables in ("model", "exact"):
                with self.subTest(family, tables=tables):
                    torch.compiler.reset()
                    model, graphs = tiny_models.decoder(family), []

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
                    self.assertTrue(any("rotary_python.rotate" in name for name in called))
        torch.compiler.reset()


def towers():
    """(a name, a model with a picture tower, what the tower makes of random patches)."""

    def patches(*shape):
        return torch.randn(shape, generator=torch.Generator().manual_seed(0))

    for name in ("Qwen2_5_VL", "Glm4v"):
        config = getattr(transformers, f"{name}Config")
        model = tiny_models.tiny(config, getattr(transformers, f"{name}ForConditionalGeneration"))
        vision = model.config.vision_config
        size = 3 * vision.temporal_patch_size * vision.patch_size**2
        grid = torch.tensor([[1, 8, 12]])
        yield name, model, lambda m=model, n=size, g=grid: m.model.visual(patches(96, n), grid_thw=g)[0]
    model = tiny_models.tiny(transformers.Gemma4VisionConfig, transformers.Gemma4VisionModel)
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
        """Logits of every decoder that tiny_models can make; tools/patch_transformers.py tries gradients and tokens too."""
        count, wrong = collections.Counter(), {}
        for model_type, config_class, model_class in tiny_models.decoder_classes():
            try:
                model = tiny_models.tiny(config_class, model_class)
                before = logits(model, **left_padded())
            except Exception:
                count["no tiny model"] += 1
                continue
            try:
                report = rotary.patch(model)
            except rotary.PatchError as error:
                count["no rotary function" if "calls none" in str(error) else "refused"] += 1
                if "calls none" not in str(error):
                    self.assertEqual(model_type, "roformer", error)
                continue
            with report:
                now = logits(model, **left_padded())
            fused = any(function.proof.bits == "fused" for function in report.functions)
            close = torch.allclose(now, before, rtol=1e-5, atol=1e-6) if fused else torch.equal(now, before)
            count["equal" if torch.equal(now, before) else "close"] += 1
            if not close:
                wrong[model_type] = float((now - before).abs().max())
        self.assertEqual(wrong, {})
        self.assertGreaterEqual(count["equal"], 100, count)
