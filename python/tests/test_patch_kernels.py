"""rotary.kernels_mapping: rotary for Hugging Face's kernels."""

import copy
import inspect
import subprocess
import sys
import textwrap
import unittest

import rotary
from patch_support import needs_transformers, torch, transformers

if transformers is not None:
    from tiny_models import tiny
    from transformers.models.llama import modeling_llama

    ORIGINAL = modeling_llama.apply_rotary_pos_emb


@needs_transformers
class Kernels(unittest.TestCase):
    def test_adapter(self):
        mapping = rotary.kernels_mapping(tiny(transformers.LlamaConfig, transformers.LlamaForCausalLM))
        adapter = mapping["rotary_pos_emb"]["cpu"]
        self.assertEqual((adapter, hash(adapter)), (copy.deepcopy(adapter), hash(copy.deepcopy(adapter))))
        layer = adapter.load()
        self.assertTrue(issubclass(layer, torch.nn.Module))
        self.assertIs(layer.__init__, torch.nn.Module.__init__)
        self.assertEqual(
            list(inspect.signature(layer.forward).parameters)[1:], list(inspect.signature(ORIGINAL).parameters)
        )
        q, k = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 5, 16)
        cos, sin = (torch.cat((rows, rows), -1) for rows in torch.randn(2, 2, 5, 8))
        self.assertTrue(all(map(torch.equal, layer()(q, k, cos, sin), ORIGINAL(q, k, cos, sin))))

    def test_nanochat_turns_clockwise(self):
        from transformers.models.nanochat import modeling_nanochat

        model = tiny(transformers.NanoChatConfig, transformers.NanoChatForCausalLM)
        layer = rotary.kernels_mapping(model)["rotary_pos_emb"]["cpu"].load()
        q, k = torch.randn(2, 4, 5, 16), torch.randn(2, 2, 5, 16)
        cos, sin = (torch.cat((rows, rows), -1) for rows in torch.randn(2, 2, 5, 8))
        given = layer()(q, k, cos, sin)
        self.assertTrue(all(map(torch.equal, given, modeling_nanochat.apply_rotary_pos_emb(q, k, cos, sin))))
        self.assertFalse(torch.equal(given[0], ORIGINAL(q, k, cos, sin)[0]))

    def test_unmarked(self):
        model = tiny(transformers.GPTJConfig, transformers.GPTJForCausalLM)
        with self.assertRaises(rotary.PatchError) as caught:
            rotary.kernels_mapping(model)
        self.assertIn("rotary.patch", str(caught.exception))

    def test_with_kernels(self):
        """In a process where transformers takes whatever version of kernels is installed."""
        try:
            import kernels  # noqa: F401
        except ImportError:
            self.skipTest("kernels is not installed")
        script = """
            import sys
            import transformers.utils, transformers.utils.import_utils as imports
            imports.is_kernels_available = transformers.utils.is_kernels_available = lambda *_, **__: True
            import kernels, torch, transformers, rotary, tiny_models
            from unittest import mock
            tiny_models.quiet()
            for name in ("Llama", "NanoChat"):
                config, kind = getattr(transformers, name + "Config"), getattr(transformers, name + "ForCausalLM")
                model = tiny_models.tiny(config, kind)
                module = sys.modules[kind.__module__]
                if not isinstance(module.apply_rotary_pos_emb, torch.nn.Module):
                    sys.exit(77)
                before = tiny_models.Outcome(model)
                with rotary.patch(model):
                    assert before.wrong_logits() == before.wrong_gradients() == 0
                with kernels.use_kernel_mapping(rotary.kernels_mapping(model)):
                    kernels.kernelize(model, mode=kernels.Mode.TRAINING, device="cpu")
                with mock.patch("rotary._rotating.rotate_qk", side_effect=rotary.rotate_qk) as turned:
                    assert before.wrong_logits() == before.wrong_gradients() == 0
                assert turned.call_count >= 6, turned.call_count
                try:
                    rotary.patch(model)
                    raise SystemExit("patched over a kernel")
                except rotary.PatchError as error:
                    assert "kernels" in str(error), error
        """
        run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
        if run.returncode == 77:
            self.skipTest("this transformers does not mark its functions for this version of kernels")
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
