"""RotaryEmbedding(learned="mixed"): its gradients, initial values and training."""

import math
import unittest

import rotary
from support import refused
from torch_support import needs_torch, torch

WORDS = {"head_dim": 16, "heads": 2, "pairing": "interleaved", "learned": "mixed", "layout": "bhtd"}
GRID = [[x for _ in range(3) for x in range(4)], [y for y in range(3) for _ in range(4)]]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@needs_torch
class Learned(unittest.TestCase):
    def test_rows_and_rotation_are_those_of_a_table(self):
        rope = rotary.RotaryEmbedding(**WORDS, generator=seeded())
        table = rotary.Table(rope.rope, GRID)
        q, k = torch.randn(2, 4, 12, 16), torch.randn(2, 2, 12, 16)
        got, exact = rope(q, k, GRID), rotary.rotate_qk(q, k, table, layout="bhtd")
        compiled = torch.compile(rope, fullgraph=True, backend="aot_eager")(q, k, torch.tensor(GRID))
        for one, two, three in zip(got, exact, compiled):
            torch.testing.assert_close(one, two, rtol=0, atol=5e-6)  # the parameters are float32
            torch.testing.assert_close(one, three, rtol=0, atol=1e-6)
        wide = rope.double().table(GRID)
        rope.reset_parameters()
        self.assertEqual((wide.head_rows, wide.cos.dtype), (2, torch.float64))

    def test_gradients(self):
        rope = rotary.RotaryEmbedding(**{**WORDS, "head_dim": 8}, phase=True, generator=seeded()).double()
        given = [torch.randn(1, heads, 3, 10, dtype=torch.float64, requires_grad=True) for heads in (4, 2)]
        places = torch.tensor([[0, 1, -2], [0.5, 3, 1]])

        def f(q, k, speeds, phase):
            return torch.func.functional_call(rope, {"inv_freq": speeds, "phase": phase}, (q, k, places))

        self.assertTrue(torch.autograd.gradcheck(f, (*given, rope.inv_freq, rope.phase)))

    def test_state_and_meta(self):
        rope = rotary.RotaryEmbedding(**WORDS, phase=True, generator=seeded())
        shapes = {name: list(x.shape) for name, x in rope.state_dict().items()}
        self.assertEqual(shapes, {"inv_freq": [2, 2, 8], "phase": [2, 8]})
        with torch.device("meta"):
            other = rotary.RotaryEmbedding(**WORDS, phase=True, generator=seeded())
        self.assertTrue(other.inv_freq.is_meta)
        angles = 2 * math.pi * torch.rand(2, generator=seeded())  # as timm draws them
        drawn = torch.tensor(rotary.makers.mixed_directions(16, angles.tolist()))
        torch.testing.assert_close(rope.inv_freq.detach().double(), drawn, rtol=0, atol=1e-6)
        of_speeds = rotary.RotaryEmbedding(rotary.frequencies(rope.rope), learned="mixed")
        self.assertTrue(torch.equal(of_speeds.inv_freq, rope.inv_freq))
        other.to_empty(device="cpu").reset_parameters()
        self.assertTrue(torch.equal(other.inv_freq, rope.inv_freq) and torch.equal(other.phase, rope.phase))
        with torch.no_grad():
            rope.inv_freq.mul_(2)
        other.load_state_dict(rope.state_dict())
        self.assertTrue(torch.equal(other.inv_freq, rope.inv_freq))
        self.assertFalse(list(rope.buffers()))

    def test_refusals(self):
        rope = rotary.RotaryEmbedding(**WORDS)
        x = torch.randn(1, 2, 12, 16)
        self.assertIn("[axes, tokens]", refused(self, "SHAPE", lambda: rope(x)))
        odd = WORDS | {"head_dim": 18}
        self.assertIn("multiple of 4", refused(self, "SHAPE", lambda: rotary.RotaryEmbedding(**odd)))
        plain = rotary.Rope(head_dim=16, pairing="half")
        self.assertIn("inv_freq", refused(self, "SHAPE", lambda: rotary.RotaryEmbedding(plain, learned="mixed")))
        refused(self, "VALUE", lambda: rotary.RotaryEmbedding(plain, learned="mixes"))
        with self.assertRaisesRegex(TypeError, r"^RotaryEmbedding\(learned='mixed'\) takes .* heads= .* got head_dim"):
            rotary.RotaryEmbedding(head_dim=16, pairing="half", learned="mixed")
        scaled = {"head_dim": 16, "heads": 2, "pairing": "half", "scaling": rotary.scalings.Linear(factor=2)}
        refused(self, "SCALING", lambda: rotary.RotaryEmbedding(**scaled, learned="mixed"))
