"""flash-attn's function against its documented formula."""

import unittest

from torch_support import eager, needs_torch, refused, torch

if torch is not None:
    from rotary.compat.flash_attn import apply_rotary_emb


def rows(count, pairs, seed=0):
    angles = torch.rand(count, pairs, generator=torch.Generator().manual_seed(seed)) * 6
    return angles.cos(), angles.sin()


@needs_torch
class FlashAttn(unittest.TestCase):
    def expected(self, x, cos, sin, interleaved, positions):
        """x [batch, seqlen, nheads, headdim], positions [batch, seqlen]."""
        rows = (one[torch.tensor(positions)].float() for one in (cos, sin))
        return eager(x, *rows, "interleaved" if interleaved else "half", "bthd")

    def test_offsets(self):
        for dtype in (torch.float32, torch.bfloat16):
            cos, sin = (one.to(dtype) for one in rows(20, 4))
            x = torch.randn(3, 5, 2, 16).to(dtype)
            for interleaved in (False, True):
                for offsets in (0, 7, torch.tensor([0, 3, 15]), torch.tensor([1, 1, 2], dtype=torch.int32)):
                    first = offsets.tolist() if isinstance(offsets, torch.Tensor) else [offsets] * 3
                    positions = [[start + t for t in range(5)] for start in first]
                    expected = self.expected(x, cos, sin, interleaved, positions)
                    made = apply_rotary_emb(x, cos, sin, interleaved, seqlen_offsets=offsets)
                    self.assertTrue(torch.equal(made, expected))
                    given = x.clone()
                    self.assertIs(apply_rotary_emb(given, cos, sin, interleaved, True, offsets), given)
                    self.assertTrue(torch.equal(given, expected))

    def test_packed(self):
        cos, sin = rows(20, 8)
        x, ends = torch.randn(9, 2, 16), torch.tensor([0, 4, 4, 9], dtype=torch.int32)
        for offsets, first in ((0, (0, 0, 0)), (2, (2, 2, 2)), (torch.tensor([5, 9, 1]), (5, 9, 1))):
            positions = [first[0] + t for t in range(4)] + [first[2] + t for t in range(5)]
            expected = self.expected(x[None], cos, sin, False, [positions])[0]
            made = apply_rotary_emb(x, cos, sin, seqlen_offsets=offsets, cu_seqlens=ends, max_seqlen=5)
            self.assertTrue(torch.equal(made, expected))

    def test_gradient(self):
        cos, sin = (one.double().requires_grad_() for one in rows(9, 4))
        x = torch.randn(2, 3, 2, 10, dtype=torch.float64, requires_grad=True)
        offsets = torch.tensor([0, 4])
        f = lambda x, c, s: apply_rotary_emb(x, c, s, True, seqlen_offsets=offsets)  # noqa: E731
        self.assertTrue(torch.autograd.gradcheck(f, (x, cos, sin)))

    def test_errors(self):
        cos, sin = rows(6, 4)
        x = torch.randn(1, 5, 2, 16)
        for code, make in (
            ("POSITION", lambda: apply_rotary_emb(x, cos, sin, seqlen_offsets=2)),
            ("POSITION", lambda: apply_rotary_emb(x, cos, sin, seqlen_offsets=-1)),
            ("POSITION", lambda: apply_rotary_emb(x, cos, sin, seqlen_offsets=torch.tensor([3]))),
            ("POSITION", lambda: apply_rotary_emb(x, cos, sin, seqlen_offsets=torch.tensor([-1]))),
            ("POSITION", lambda: apply_rotary_emb(x[0], cos, sin, cu_seqlens=torch.tensor([0, 5]), max_seqlen=7)),
            ("SHAPE", lambda: apply_rotary_emb(x[0], cos, sin)),
            ("SHAPE", lambda: apply_rotary_emb(x[0], cos, sin, cu_seqlens=torch.tensor([0, 4]))),
            ("SHAPE", lambda: apply_rotary_emb(x[0], cos, sin, cu_seqlens=torch.tensor([0, 4, 2, 5]))),
            ("SHAPE", lambda: apply_rotary_emb(x[0], cos, sin, cu_seqlens=torch.tensor([1, 5]))),
            ("SHAPE", lambda: apply_rotary_emb(x, cos, sin, cu_seqlens=torch.tensor([0, 5]))),
            ("SHAPE", lambda: apply_rotary_emb(x, cos[None], sin[None])),
            ("SHAPE", lambda: apply_rotary_emb(x[..., :6], cos, sin)),
        ):
            refused(self, code, make)
