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
from tiny_models import LLAMA3, Outcome, ids, left_padded, logits, needs_transformers, small_config, tiny
from tiny_models import torch, transformers

if transformers is not None:
    from rotary._torch import entry
    from transformers.models.llama import modeling_llama

    ORIGINAL = modeling_llama.apply_rotary_pos_emb


def made(name, seed=0, head="ForCausalLM", **values):
    """A tiny model of transformers by the names of its classes."""
    config = getattr(transformers, f"{name}Config")
    return tiny(config, getattr(transformers, f"{name.removesuffix('Text')}{head}"), seed, values)


def llama(seed=0, **values):
    return made("Llama", seed, **values)


def given(dtype=None):
    """q, k and doubled rows of Llama's function."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 4, 5, 16, dtype=dtype), torch.randn(2, 2, 5, 16, dtype=dtype)
    return [q, k, *(torch.cat((rows, rows), -1) for rows in torch.randn(2, 2, 5, 8))]


@needs_transformers
class Case(unittest.TestCase):
    def setUp(self):
        self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)

    def tearDown(self):
        left, modeling_llama.apply_rotary_pos_emb = modeling_llama.apply_rotary_pos_emb, ORIGINAL
        self.assertIs(left, ORIGINAL, "the test left a patch")

    def same(self, new, old):
        self.assertEqual([x.dtype for x in new], [x.dtype for x in old])
        self.assertTrue(all(map(torch.equal, new, old)))

    def refused(self, model, code, *words, **how):
        """rotary.patch refuses and changes nothing."""
        functions = dict(vars(modeling_llama))
        with self.assertRaises(rotary.PatchError) as caught:
            rotary.patch(model, **how)
        self.assertEqual(caught.exception.code, code, caught.exception)
        for word in ("[patch] ", *words):
            self.assertIn(word, str(caught.exception))
        self.assertEqual(functions.keys(), vars(modeling_llama).keys())
        self.assertTrue(all(value is functions[name] for name, value in vars(modeling_llama).items()))


class Patch(Case):
    def test_replaces_and_takes_back(self):
        model = llama()
        before = Outcome(model)
        report = rotary.patch(model, check={"input_ids": ids()})
        new = modeling_llama.apply_rotary_pos_emb
        self.assertIsNot(new, ORIGINAL)
        self.assertEqual((inspect.signature(new), new.__name__), (inspect.signature(ORIGINAL), ORIGINAL.__name__))
        with mock.patch.object(entry, "rotate_qk", side_effect=entry.rotate_qk) as turned:
            self.assertEqual(before.wrong_logits(), 0.0)
        self.assertEqual(turned.call_count, 4)  # two calls of two layers
        self.assertEqual((before.wrong_gradients(), before.other_tokens(), report.difference), (0.0, 0, 0.0))
        for _ in range(2):
            report.undo()
            self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)
        self.assertFalse(report.active)
        self.assertEqual(before.wrong_logits(), 0.0)

    def test_report(self):
        with rotary.patch(llama()) as report:
            (function,), (table,) = report.functions, report.tables
            self.assertEqual((function.name, function.module), ("apply_rotary_pos_emb", modeling_llama.__name__))
            line = inspect.getsourcelines(ORIGINAL)[1]
            self.assertEqual((function.file, function.line), (modeling_llama.__file__, line))
            self.assertEqual(function.proof.behaviour.pairing, "half")
            self.assertEqual((table.path, table.rope.rope.base), ("model.rotary_emb", 10000.0))
            self.assertLess(table.difference, 1e-5)
            for words in ("replaced", "half", "bit for bit", "model.rotary_emb", "one for the process", "of the model"):
                self.assertIn(words, str(report))
        self.assertIn("undone", str(report))

    def test_every_model_of_the_family_and_the_order_of_undo(self):
        first = llama(0)
        one = rotary.patch(first)
        new = modeling_llama.apply_rotary_pos_emb
        two, again = rotary.patch(llama(1)), rotary.patch(first)
        for report in (one, again):
            self.assertIs(modeling_llama.apply_rotary_pos_emb, new)
            report.undo()
        self.assertIs(modeling_llama.apply_rotary_pos_emb, new)
        two.undo()
        self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)

    def test_undo_leaves_a_strangers_function(self):
        report = rotary.patch(llama())
        with mock.patch.object(modeling_llama, "apply_rotary_pos_emb", lambda *_: None) as stranger:
            with self.assertRaisesRegex(rotary.PatchError, "reverse order"):
                report.undo()
            self.assertIs(modeling_llama.apply_rotary_pos_emb, stranger)
        modeling_llama.apply_rotary_pos_emb = ORIGINAL

    def test_calls_outside_of_the_proof_run_the_original(self):
        inputs = given(torch.float64)
        with rotary.patch(llama()):
            new = modeling_llama.apply_rotary_pos_emb
            self.same(new(*inputs), ORIGINAL(*inputs))
            for args, words in ((inputs[:3], {}), ((*inputs, 1, 2), {}), (inputs, {"speed": 2})):
                with self.assertRaises(TypeError):
                    new(*args, **words)

    def test_bfloat16(self):
        q, k, cos, sin = given(torch.bfloat16)
        with rotary.patch(llama()):
            mixed = modeling_llama.apply_rotary_pos_emb(q, k, cos, sin)
            narrow = modeling_llama.apply_rotary_pos_emb(q, k, cos.bfloat16(), sin.bfloat16())
        self.same(mixed, ORIGINAL(q, k, cos, sin))  # the original promotes
        once = ORIGINAL(q.float(), k.float(), cos.bfloat16().float(), sin.bfloat16().float())
        self.same(narrow, [x.bfloat16() for x in once])  # where the original rounds three times

    def test_rows_of_a_gradient(self):
        """The replacement passes gradients to cos and sin, as the original does."""
        grads = []
        with rotary.patch(llama()):
            for function in (ORIGINAL, modeling_llama.apply_rotary_pos_emb):
                inputs = [x.requires_grad_() for x in given()]
                out = function(*inputs)
                (out[0].square().sum() + out[1].sum()).backward()
                q, k, *rows = (x.grad for x in inputs)
                grads.append([q, k, *(sum(one.chunk(2, -1)) for one in rows)])
        torch.testing.assert_close(*grads, rtol=1e-5, atol=1e-5)

    def test_every_way_that_models_call_it(self):
        q, k, cos, sin = given()
        p, n, two = q.transpose(1, 2), k.transpose(1, 2), {"unsqueeze_dim": 2}
        calls = [
            ((q, k, cos, sin), {}, 1),
            ((p, n, cos, sin), two, 1),
            ((p, n, cos[:1], sin[:1]), two, 1),
            ((p[0], n[0], cos[0], sin[0]), {}, 1),
            ((p, n, cos, sin, 2), {}, 0),  # and what runs the original
            ((), {"q": p, "k": n, "cos": cos, "sin": sin, **two}, 0),
            ((p, n, cos[:, :, :1], sin[:, :, :1]), two, 0),
            ((p, n, cos[:, :1], sin[:, :1]), two, 1),  # rotary refuses these rows
        ]
        with rotary.patch(llama()):
            for args, words, count in calls:
                with mock.patch.object(entry, "rotate_qk", side_effect=entry.rotate_qk) as turned:
                    self.same(modeling_llama.apply_rotary_pos_emb(*args, **words), ORIGINAL(*args, **words))
                self.assertEqual(turned.call_count, count)


class Exact(Case):
    def test_rows_are_rotarys(self):
        model = llama()
        with rotary.patch(model, tables="exact") as report:
            places = torch.tensor([[0, 1, 300], [5, 6, 7]])
            table = rotary.config(model.config)[0].table(places.numpy())
            exact = [torch.tensor(rows).repeat(1, 1, 2) for rows in (table.cos, table.sin)]
            self.same(model.model.rotary_emb(torch.zeros(1), places), exact)
            self.assertEqual(model.model.rotary_emb(torch.zeros(1).bfloat16(), places)[0].dtype, torch.bfloat16)
            self.assertIn("exact", str(report))
        self.assertNotIn("forward", vars(model.model.rotary_emb))

    def test_buffers_do_not_matter(self):
        """What trainers do: a model on meta, to_empty, then its weights. inv_freq is in no checkpoint."""
        scaled = {"rope_parameters": {**LLAMA3, "original_max_position_embeddings": 64}}
        for name, values in (("Llama", {}), ("Llama", scaled), ("Gemma3Text", {}), ("NanoChat", {})):
            with self.subTest(name, **values):
                right = made(name, **values)
                before = logits(right, **left_padded())
                with torch.device("meta"):
                    model = type(right)._from_config(right.config)
                model = model.to_empty(device="cpu").eval()
                for path, buffer in model.named_buffers():
                    buffer.copy_(right.get_buffer(path) * ("inv_freq" not in path))  # what to_empty may well leave
                model.load_state_dict(right.state_dict())
                self.assertGreater(float((logits(model, **left_padded()) - before).abs().max()), 1e-3)
                with self.assertRaisesRegex(rotary.PatchError, 'tables="exact"') as caught:
                    rotary.patch(model)
                self.assertEqual(caught.exception.code, "ROPE")
                with rotary.patch(model, tables="exact"):
                    now = logits(model, **left_padded())
                self.assertLess(float((now - before).abs().max() / before.abs().max()), 2e-6)

    def test_refusals(self):
        model = llama()
        with rotary.patch(model, tables="exact"), self.assertRaises(rotary.PatchError):
            rotary.patch(model, tables="exact")
        self.refused(made("GPTJ"), "TORCH", "embed_positions", tables="exact")
        self.refused(model, "VALUE", tables="exakt")


class Refusals(Case):
    def test_no_model(self):
        for wrong in (None, torch.nn.Linear(2, 2), "Llama"):
            with self.assertRaises(TypeError):
                rotary.patch(wrong)

    def test_no_rotation_or_by_a_method(self):
        self.refused(made("GPT2", head="LMHeadModel"), "TORCH", "calls none")
        self.refused(made("RoFormer"), "TORCH", "apply_rotary_position_embeddings")

    def test_somebody_elses(self):
        def stranger(q, k, cos, sin, unsqueeze_dim=1):
            return ORIGINAL(q, k, cos, sin, unsqueeze_dim)

        wrapped = functools.wraps(ORIGINAL)(stranger)
        for function in (stranger, wrapped, functools.partial(ORIGINAL), torch.compile(ORIGINAL)):
            with self.subTest(str(function)), mock.patch.object(modeling_llama, "apply_rotary_pos_emb", function):
                self.refused(llama(), "TORCH", "must be the modeling code's own function")

    def test_what_is_not_proved(self):
        """A modeling file whose function scales: as remote code, from a file of its own."""
        source = inspect.getsource(modeling_llama).replace("from ...", "from transformers.")
        source = source.replace("from .configuration_llama", "from transformers.models.llama.configuration_llama")
        scaled = source.replace("q_embed = (q * cos)", "q_embed = (q * cos * 1.01)")
        self.assertNotEqual(source, scaled)
        for text, fails in ((scaled, True), (source, False)):
            other = remote("modeling_remote_llama", text).LlamaForCausalLM(llama().config).eval()
            if fails:
                self.refused(other, "TORCH", "no known rotation")
                continue
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
        self.refused(llama().bfloat16().float(), "ROPE", 'tables="exact"')  # inv_freq was rounded to 8 bits

    def test_rows_that_are_not_doubled(self):
        """HunYuan-VL's two halves of a row are angles of different axes: no table of rotary's is that."""
        config = small_config(transformers.HunYuanVLConfig)
        self.refused(transformers.HunYuanVLForConditionalGeneration._from_config(config), "ROPE", "rotary_emb")

    def test_device(self):
        self.refused(llama().to("meta"), "DEVICE", "meta", "force=True")

    def test_compiled(self):
        self.refused(torch.compile(llama()), "TORCH", "patch before torch.compile")
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
        model, hook = llama(), mock.Mock(side_effect=[None, RuntimeError("the second run")])
        model.register_forward_pre_hook(hook)
        with self.assertRaisesRegex(RuntimeError, "the second run"):
            rotary.patch(model, check={"input_ids": ids()})
        self.assertIs(modeling_llama.apply_rotary_pos_emb, ORIGINAL)


def remote(name, text):
    """A module as transformers loads remote code: of a file in a package of its own."""
    package = types.ModuleType("transformers_modules_of_tests")
    package.__path__ = [tempfile.mkdtemp()]
    pathlib.Path(package.__path__[0], f"{name}.py").write_text(text)
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
