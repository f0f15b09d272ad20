"""rotary.patch: what it does, takes back and refuses."""

import functools
import importlib
import inspect
import pathlib
import pickle
import sys
import tempfile
import types
import unittest
from unittest import mock

import rotary
from patch_support import needs_transformers, torch, transformers

if transformers is not None:
    import tiny_models
    from rotary._torch import entry
    from tiny_models import Outcome, ids, left_padded, logits
    from transformers.models.llama import modeling_llama

    ORIGINAL = modeling_llama.apply_rotary_pos_emb


def llama(seed=0, **values):
    return made(transformers.LlamaConfig, transformers.LlamaForCausalLM, seed, **values)


def made(config_class, model_class, seed=0, **values):
    return tiny_models.tiny(config_class, model_class, seed, values)


@needs_transformers
class Case(unittest.TestCase):
    def setUp(self):
        self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)

    def tearDown(self):
        left, modeling_llama.apply_rotary_pos_emb = modeling_llama.apply_rotary_pos_emb, ORIGINAL
        self.assertIs(left, ORIGINAL, "the test left a patch")

    def refused(self, model, code, *words, **how):
        """rotary.patch refuses and changes nothing."""
        functions = dict(vars(modeling_llama))
        with self.assertRaises(rotary.PatchError) as caught:
            rotary.patch(model, **how)
        self.assertIsInstance(caught.exception, rotary.Error)
        self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertTrue(str(caught.exception).startswith("[patch] "))
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertEqual(functions.keys(), vars(modeling_llama).keys())
        self.assertTrue(all(value is functions[name] for name, value in vars(modeling_llama).items()))


class Patch(Case):
    def test_replaces_and_takes_back(self):
        model = llama()
        before = Outcome(model)
        report = rotary.patch(model, check={"input_ids": ids()})
        self.assertIsNot(modeling_llama.apply_rotary_pos_emb, ORIGINAL)
        self.assertEqual(inspect.signature(modeling_llama.apply_rotary_pos_emb), inspect.signature(ORIGINAL))
        self.assertEqual(modeling_llama.apply_rotary_pos_emb.__name__, "apply_rotary_pos_emb")
        self.assertEqual((before.wrong_logits(), before.wrong_gradients(), before.other_tokens()), (0.0, 0.0, 0))
        self.assertEqual(report.difference, 0.0)
        report.undo()
        self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)
        self.assertFalse(report.active)
        report.undo()
        self.assertEqual(before.wrong_logits(), 0.0)

    def test_rotary_is_what_turns(self):
        model = llama()
        before = logits(model, **left_padded())
        with rotary.patch(model), mock.patch.object(entry, "rotate_qk", side_effect=entry.rotate_qk) as turned:
            self.assertTrue(torch.equal(logits(model, **left_padded()), before))
        self.assertEqual(turned.call_count, 2)  # once for each layer

    def test_report(self):
        with rotary.patch(llama()) as report:
            (function,), (table,) = report.functions, report.tables
            self.assertEqual(function.name, "apply_rotary_pos_emb")
            self.assertEqual(function.module, "transformers.models.llama.modeling_llama")
            self.assertTrue(function.file.endswith("modeling_llama.py"))
            self.assertEqual(function.line, inspect.getsourcelines(ORIGINAL)[1])
            self.assertEqual(function.proof.behaviour.pairing, "half")
            self.assertEqual((table.path, table.rope.rope.base), ("model.rotary_emb", 10000.0))
            self.assertLess(table.difference, 1e-5)
            text = str(report)
            for words in ("replaced", "half", "bit for bit", "model.rotary_emb", "one for the process", "of the model"):
                self.assertIn(words, text)
        self.assertIn("undone", str(report))

    def test_every_model_of_the_family_and_the_order_of_undo(self):
        first, second = llama(0), llama(1)
        one = rotary.patch(first)
        new = modeling_llama.apply_rotary_pos_emb
        two = rotary.patch(second)
        again = rotary.patch(first)
        self.assertIs(modeling_llama.apply_rotary_pos_emb, new)
        for report in (one, again):
            report.undo()
            self.assertIs(modeling_llama.apply_rotary_pos_emb, new)
        two.undo()
        self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)

    def test_undo_leaves_a_strangers_function(self):
        report = rotary.patch(llama())

        def stranger(q, k, cos, sin, unsqueeze_dim=1):
            return q, k

        modeling_llama.apply_rotary_pos_emb = stranger
        with self.assertRaises(rotary.PatchError) as caught:
            report.undo()
        self.assertIn("reverse order", str(caught.exception))
        self.assertIs(modeling_llama.apply_rotary_pos_emb, stranger)
        modeling_llama.apply_rotary_pos_emb = ORIGINAL

    def test_calls_outside_of_the_proof_run_the_original(self):
        q, k = torch.randn(2, 4, 5, 16, dtype=torch.float64), torch.randn(2, 2, 5, 16, dtype=torch.float64)
        cos, sin = torch.randn(2, 2, 5, 16, dtype=torch.float64)
        kept = ORIGINAL(q, k, cos, sin)
        with rotary.patch(llama()):
            new = modeling_llama.apply_rotary_pos_emb
            self.assertTrue(all(map(torch.equal, new(q, k, cos, sin), kept)))  # float64
            with self.assertRaises(TypeError):
                new(q, k, cos)
            with self.assertRaises(TypeError):
                new(q, k, cos, sin, 1, 2)
            with self.assertRaises(TypeError):
                new(q, k, cos, sin, speed=2)

    def test_bfloat16(self):
        q, k = torch.randn(2, 4, 5, 16).bfloat16(), torch.randn(2, 2, 5, 16).bfloat16()
        cos, sin = (torch.cat((rows, rows), -1) for rows in torch.randn(2, 2, 5, 8))
        with rotary.patch(llama()):
            mixed = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
            narrow = modeling_llama.apply_rotary_pos_emb(q, k, cos.bfloat16(), sin.bfloat16())
        for new, old in zip(mixed, ORIGINAL(q, k, cos, sin)):  # the original promotes
            self.assertEqual(new.dtype, torch.float32)
            self.assertTrue(torch.equal(new, old))
        once = ORIGINAL(q.float(), k.float(), cos.bfloat16().float(), sin.bfloat16().float())
        for new, exact in zip(narrow, once):  # rounded once, where the original rounds three times
            self.assertTrue(torch.equal(new, exact.bfloat16()))

    def test_rows_of_a_gradient(self):
        """The replacement passes gradients to cos and sin, as the original does."""
        torch.manual_seed(0)
        given = [torch.randn(2, 4, 5, 16), torch.randn(2, 2, 5, 16)]
        given += [torch.cat((rows, rows), -1) for rows in torch.randn(2, 2, 5, 8)]
        halves = []
        for function in (ORIGINAL, None):
            with rotary.patch(llama()):
                inputs = [x.clone().requires_grad_() for x in given]
                out = (function or modeling_llama.apply_rotary_pos_emb)(*inputs)
                (out[0].square().sum() + out[1].sum()).backward()
            grads = [x.grad for x in inputs]
            halves.append([*grads[:2], *(sum(rows.chunk(2, -1)) for rows in grads[2:])])
        for new, old in zip(halves[1], halves[0]):
            torch.testing.assert_close(new, old, rtol=1e-5, atol=1e-5)

    def test_every_way_that_models_call_it(self):
        q, k = torch.randn(2, 5, 4, 16), torch.randn(2, 5, 2, 16)
        cos, sin = (torch.cat((rows, rows), -1) for rows in torch.randn(2, 2, 5, 8))
        calls = [
            ((q.transpose(1, 2), k.transpose(1, 2), cos, sin), {}, 1),
            ((q, k, cos, sin), {"unsqueeze_dim": 2}, 1),
            ((q, k, cos[:1], sin[:1]), {"unsqueeze_dim": 2}, 1),
            ((q[0], k[0], cos[0], sin[0]), {}, 1),
            ((q, k, cos, sin, 2), {}, 0),  # and what runs the original
            ((), {"q": q, "k": k, "cos": cos, "sin": sin, "unsqueeze_dim": 2}, 0),
            ((q, k[..., :16], cos[:, :, :1], sin[:, :, :1]), {"unsqueeze_dim": 2}, 0),
            ((q, k, cos[:, :1], sin[:, :1]), {"unsqueeze_dim": 2}, 1),  # rotary refuses these rows
        ]
        with rotary.patch(llama()):
            for args, words, count in calls:
                with mock.patch.object(entry, "rotate_qk", side_effect=entry.rotate_qk) as turned:
                    made = modeling_llama.apply_rotary_pos_emb(*args, **words)
                self.assertTrue(all(map(torch.equal, made, ORIGINAL(*args, **words))))
                self.assertEqual(turned.call_count, count)


class Exact(Case):
    def test_rows_are_rotarys(self):
        model = llama()
        with rotary.patch(model, tables="exact") as report:
            places = torch.tensor([[0, 1, 300], [5, 6, 7]])
            cos, sin = model.model.rotary_emb(torch.zeros(1), places)
            table = rotary.config(model.config)[0].table(places.numpy())
            for rows, exact in ((cos, table.cos), (sin, table.sin)):
                exact = torch.tensor(exact)
                self.assertTrue(torch.equal(rows, torch.cat((exact, exact), -1)))
            self.assertEqual(model.model.rotary_emb(torch.zeros(1).bfloat16(), places)[0].dtype, torch.bfloat16)
            self.assertIn("exact", str(report))
        self.assertNotIn("forward", vars(model.model.rotary_emb))

    def test_buffers_do_not_matter(self):
        """What trainers do: a model on meta, to_empty, then its weights. inv_freq is in no checkpoint."""
        scaled = {**tiny_models.LLAMA3, "original_max_position_embeddings": 64}
        models = [
            (transformers.LlamaConfig, transformers.LlamaForCausalLM, {}),
            (transformers.LlamaConfig, transformers.LlamaForCausalLM, {"rope_parameters": scaled}),
            (transformers.Gemma3TextConfig, transformers.Gemma3ForCausalLM, {}),
            (transformers.NanoChatConfig, transformers.NanoChatForCausalLM, {}),
        ]
        for config_class, model_class, values in models:
            with self.subTest(config_class.model_type):
                right = made(config_class, model_class, **values)
                before = logits(right, **left_padded())
                with torch.device("meta"):
                    model = model_class._from_config(right.config)
                model = model.to_empty(device="cpu").eval()
                for name, buffer in model.named_buffers():
                    if "inv_freq" in name:
                        buffer.zero_()  # what to_empty may well leave
                    else:
                        buffer.copy_(right.get_buffer(name))
                model.load_state_dict(right.state_dict())
                self.assertGreater(float((logits(model, **left_padded()) - before).abs().max()), 1e-3)
                with self.assertRaises(rotary.PatchError) as caught:
                    rotary.patch(model)
                self.assertEqual(caught.exception.code, "ROPE")
                self.assertIn('tables="exact"', str(caught.exception))
                with rotary.patch(model, tables="exact"):
                    now = logits(model, **left_padded())
                self.assertLess(float((now - before).abs().max() / before.abs().max()), 2e-6)

    def test_refusals(self):
        model = llama()
        with rotary.patch(model, tables="exact"), self.assertRaises(rotary.PatchError):
            rotary.patch(model, tables="exact")
        gptj = made(transformers.GPTJConfig, transformers.GPTJForCausalLM)
        self.refused(gptj, "TORCH", "embed_positions", tables="exact")
        self.refused(model, "VALUE", tables="exakt")


class Refusals(Case):
    def test_no_model(self):
        for wrong in (None, torch.nn.Linear(2, 2), "Llama"):
            with self.assertRaises(TypeError):
                rotary.patch(wrong)

    def test_no_rotation(self):
        model = made(transformers.GPT2Config, transformers.GPT2LMHeadModel)
        self.refused(model, "TORCH", "calls none")

    def test_rotation_by_a_method(self):
        model = made(transformers.RoFormerConfig, transformers.RoFormerForCausalLM)
        self.refused(model, "TORCH", "apply_rotary_position_embeddings")

    def test_somebody_elses(self):
        def stranger(q, k, cos, sin, unsqueeze_dim=1):
            return ORIGINAL(q, k, cos, sin, unsqueeze_dim)

        wrapped = functools.wraps(ORIGINAL)(stranger)
        for function in (stranger, wrapped, functools.partial(ORIGINAL), torch.compile(ORIGINAL)):
            with self.subTest(str(function)), mock.patch.object(modeling_llama, "apply_rotary_pos_emb", function):
                self.refused(llama(), "TORCH", "must be the modeling code's own function")

    def test_what_is_not_proved(self):
        """A modeling file whose function scales: as remote code, from a file of its own."""
        source = (
            inspect.getsource(modeling_llama)
            .replace("from ...", "from transformers.")
            .replace("from .configuration_llama", "from transformers.models.llama.configuration_llama")
        )
        scaled = source.replace("q_embed = (q * cos)", "q_embed = (q * cos * 1.01)")
        self.assertNotEqual(source, scaled)
        for text, fails in ((scaled, True), (source, False)):
            module = remote("modeling_remote_llama", text)
            model = llama()
            other = module.LlamaForCausalLM(model.config).eval()
            other.load_state_dict(model.state_dict())
            if fails:
                self.refused(other, "TORCH", "no known rotation")
            else:
                before = logits(other, input_ids=ids())
                with rotary.patch(other):
                    self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)
                    self.assertTrue(torch.equal(logits(other, input_ids=ids()), before))

    def test_a_function_that_a_part_holds(self):
        model = llama()
        model.model.layers[1].self_attn.turn = ORIGINAL
        self.refused(model, "TORCH", "layers.1.self_attn.turn")

    def test_config_and_model_disagree(self):
        model = llama()
        model.config.rope_parameters["rope_theta"] = 20000.0
        self.refused(model, "ROPE", "model.rotary_emb", "base 20000", tables="model")
        model = llama()
        model.model.rotary_emb.inv_freq.mul_(1.0 + 2e-5)
        self.refused(model, "ROPE", 'tables="exact"')
        model = llama().bfloat16().float()  # inv_freq was rounded to 8 bits
        self.refused(model, "ROPE", 'tables="exact"')

    def test_rows_that_are_not_doubled(self):
        """HunYuan-VL's two halves of a row are angles of different axes: no table of rotary's is that."""
        config = tiny_models.small_config(transformers.HunYuanVLConfig)
        model = transformers.HunYuanVLForConditionalGeneration._from_config(config)
        self.refused(model, "ROPE", "rotary_emb")

    def test_device(self):
        with torch.device("meta"):
            model = transformers.LlamaForCausalLM(tiny_models.small_config(transformers.LlamaConfig))
        self.refused(model, "DEVICE", "meta", "force=True")

    def test_compiled(self):
        model = llama()
        self.refused(torch.compile(model), "TORCH", "patch before torch.compile")
        model = llama()
        model.compile(backend="eager")
        self.refused(model, "TORCH", "patch before torch.compile")
        model = llama()
        torch.compile(model, backend="eager")(ids(), use_cache=False)
        try:
            self.refused(model, "TORCH", "patch before torch.compile")
        finally:
            torch.compiler.reset()
        with rotary.patch(model):
            pass

    def test_check_that_fails(self):
        model, count = llama(), []

        def fails_when_patched(*_):
            count.append(0)
            if len(count) > 1:
                raise RuntimeError("the second run")

        model.register_forward_pre_hook(fails_when_patched)
        with self.assertRaisesRegex(RuntimeError, "the second run"):
            rotary.patch(model, check={"input_ids": ids()})
        self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)


def remote(name, text):
    """A module as transformers loads remote code: of a file in a package of its own."""
    package = types.ModuleType("transformers_modules_of_tests")
    package.__path__ = [tempfile.mkdtemp()]
    path = pathlib.Path(package.__path__[0], f"{name}.py")
    path.write_text(text)
    sys.modules[package.__name__] = package
    importlib.invalidate_caches()
    sys.modules.pop(f"{package.__name__}.{name}", None)
    return importlib.import_module(f"{package.__name__}.{name}")


class Errors(unittest.TestCase):
    def test_pickle(self):
        error = rotary.PatchError("TORCH", "[patch] a rule but got something")
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.code, str(again)), (rotary.PatchError, "TORCH", str(error)))
        self.assertTrue(issubclass(rotary.PatchError, rotary.Error))
