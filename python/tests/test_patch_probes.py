"""The probes of rotary.patch: what they tell of functions that are written here, and of every one of transformers."""

import pathlib
import sys
import unittest

import rotary
from tiny_models import needs_transformers, torch

try:
    from rotary._patch.probes import Behaviour, Unproved, prove
except ImportError:
    pass


def half(x):
    a, b = x.chunk(2, -1)
    return torch.cat((-b, a), -1)


def neighbours(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def written(turn, scale=1.0, sign=1.0):
    """An apply function of the usual signature; turn takes the place of rotate_half."""

    def apply_rotary_pos_emb(q, k, cos, sin, unsqueeze_dim=1):
        cos, sin = scale * cos.unsqueeze(unsqueeze_dim), sign * sin.unsqueeze(unsqueeze_dim)
        return q * cos + turn(q) * sin, k * cos + turn(k) * sin

    return apply_rotary_pos_emb


@unittest.skipIf(torch is None, "torch is not installed")
class Known(unittest.TestCase):
    def proved(self, function, *behaviour):
        proof = prove(function)
        self.assertEqual(proof.behaviour, Behaviour(*behaviour))
        self.assertEqual(proof.bits, "equal")
        self.assertGreater(proof.numbers, 1000)
        return proof

    def test_pairings_directions_rows(self):
        proof = self.proved(written(half), "half", False, "halves")
        self.assertEqual({shape.x for shape in proof.shapes}, {"bhtd", "bthd", "thd", "htd"})
        self.assertEqual((proof.block, proof.once), ("whole", False))
        self.proved(written(half, sign=-1.0), "half", True, "halves")
        self.proved(written(neighbours), "interleaved", False, "neighbours")
        self.proved(written(neighbours, sign=-1.0), "interleaved", True, "neighbours")

    def test_single_rows_and_another_order(self):
        def apply_rotary(tensor, sin, cos):  # GPT-J's
            sin, cos = (rows[:, :, None, :].repeat_interleave(2, -1) for rows in (sin, cos))
            return tensor * cos + neighbours(tensor) * sin

        shapes = self.proved(apply_rotary, "interleaved", False, "single").shapes
        self.assertEqual({shape.x for shape in shapes}, {"bthd"})

    def test_read_interleaved_written_half(self):
        def apply_rope(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
            cos, sin = (rows[..., : rows.shape[-1] // 2].unsqueeze(unsqueeze_dim) for rows in (cos, sin))
            turned = []
            for x in (q, k):
                a, b = x[..., ::2], x[..., 1::2]
                turned.append(torch.cat((a * cos - b * sin, b * cos + a * sin), -1))
            return tuple(turned)

        self.proved(apply_rope, "interleaved_to_half", False, "halves")

    def test_blocks_and_rounding(self):
        def leading(q, k, cos, sin, unsqueeze_dim=1):
            cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
            width = cos.shape[-1]

            def turned(x):
                block = x[..., :width].float()
                return torch.cat(((block * cos + half(block) * sin).to(x.dtype), x[..., width:]), -1)

            return turned(q), turned(k)

        proof = self.proved(leading, "half", False, "halves")
        self.assertEqual((proof.block, proof.once), ("leading", True))
        self.assertEqual(proof.dtypes[torch.bfloat16, torch.float32], torch.bfloat16)
        plain = prove(written(half))
        self.assertEqual(plain.dtypes[torch.bfloat16, torch.float32], torch.float32)
        self.assertEqual(plain.dtypes[torch.bfloat16, torch.bfloat16], torch.bfloat16)

    def test_what_is_not_known_is_not_proved(self):
        def one_element(x):
            turned = half(x).clone()
            turned[..., 0, 0] = x[..., 0, 0]
            return turned

        def in_place(q, k, cos, sin, unsqueeze_dim=1):
            turned = written(half)(q, k, cos, sin, unsqueeze_dim)
            q.copy_(turned[0])
            return q, turned[1]

        def changed(change):
            return lambda q, k, cos, sin, unsqueeze_dim=1: change(k, *written(half)(q, k, cos, sin, unsqueeze_dim))

        unknown = {
            "an attention factor": written(half, scale=1.0 + 2**-20),
            "a mirror": written(lambda x: half(x).flip(-1)),
            "no minus": written(lambda x: half(x).abs()),
            "one element": written(one_element),
            "only q": changed(lambda k, one, two: (one, k)),
            "the next token": changed(lambda k, one, two: (one.roll(1, -2), two.roll(1, -2))),
            "in place": in_place,
            "no parameters": lambda *args: args,
            "other parameters": lambda x, angle: x * angle,
            "nothing": written(torch.zeros_like),
        }
        for name, function in unknown.items():
            with self.subTest(name), self.assertRaises(Unproved):
                prove(function)

    def test_rotary_is_known_too(self):
        def apply_rotary_pos_emb(q, k, cos, sin):
            table = rotary.from_doubled(cos, sin, pairing="half")
            return rotary.rotate_qk(q, k, table, layout="bhtd")

        proof = self.proved(apply_rotary_pos_emb, "half", False, "halves")
        self.assertTrue(proof.once)


@needs_transformers
class Transformers(unittest.TestCase):
    def test_every_function(self):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
        from probe_transformers import probe_all

        found, _ = probe_all()
        proved = {where: proof for where, proof in found.items() if not isinstance(proof, str)}
        unproved = {where: reason for where, reason in found.items() if isinstance(reason, str)}
        self.assertGreaterEqual(len(proved), 0.96 * len(found), unproved)
        self.assertGreater(len(found), 100)
        for (module, name), proof in proved.items():
            self.assertEqual(proof.behaviour.clockwise, "nanochat" in module, module)
            self.assertTrue(proof.bits != "fused" or proof.convention.complex, name)
        kinds = {(proof.behaviour.pairing, proof.behaviour.rows) for proof in proved.values()}
        self.assertLessEqual({("half", "halves"), ("interleaved", "halves"), ("interleaved", "neighbours")}, kinds)
        # V-JEPA 2 makes its rows inside: pairs turn by two angles, which is no rotation
        self.assertTrue(all("vjepa2" in module for module, _ in unproved), unproved)
