"""The way to the CUDA kernels: what is handed to them, with a stand-in on the CPU. The kernels have tests of their own."""

import contextlib
import unittest
from unittest import mock

import rotary
from torch_support import PAIRINGS, eager, needs_torch, refused, rows_of, table_of, torch, turned

if torch is not None:
    from rotary._torch import cuda, plain

    STREAM = 1234


def stand_in(q, k, q_out, k_out, cos, sin, pairing, layout, first, backward, stream):
    """As _core._gpu_rotate is described: elements before `first` are not written."""
    assert stream == STREAM and cos.is_contiguous() and sin.is_contiguous() and cos.dtype == torch.float32
    for x, out in ((q, q_out), (k, k_out)):
        if x is not None:
            assert x.stride(-1) == 1 and out.stride(-1) == 1
            words = pairing, layout, first, backward
            y = plain.rotated(x, cos, sin, plain.How(*words)) if cos.dim() == 4 else eager(x, cos, sin, *words)
            out[..., first:] = y[..., first:]


@contextlib.contextmanager
def as_on_cuda():
    class Core:
        _gpu_rotate = staticmethod(stand_in)

    stream = mock.Mock(cuda_stream=STREAM)
    with (
        mock.patch.object(cuda, "has_kernels", lambda x: x.dtype != torch.float64),
        mock.patch.object(cuda, "_core", Core),
        mock.patch.object(torch.cuda, "device", lambda device: contextlib.nullcontext()),
        mock.patch.object(torch.cuda, "current_stream", lambda device: stream),
    ):
        yield


@needs_torch
class Cuda(unittest.TestCase):
    def test_what_the_kernels_are_given(self):
        ops = torch.ops.rotary
        for pairing in PAIRINGS:
            table = table_of(pairing, rotary_dim=8)
            c, s = rows_of(table)
            given = [one.bfloat16() for one in (c, s)]
            for dtype in (torch.float32, torch.bfloat16):
                x, k = torch.randn(2, 5, 4, 16).to(dtype), torch.randn(2, 5, 4, 32).to(dtype)[..., ::2]
                for backward in (False, True):
                    words = pairing, "bthd", 6, backward
                    with as_on_cuda():
                        one = ops.rotate(x, *given, *words, -1)
                        two = ops.rotate_qk(x, k, *given, *words)
                        packed = ops.rotate(x, *given, *words, 1)
                    rows = [one.float() for one in given]
                    expected = [eager(y, *rows, pairing, "bthd", 6, backward) for y in (x, k)]
                    self.assertTrue(torch.equal(one, expected[0]) and all(map(torch.equal, two, expected)))
                    self.assertTrue(torch.equal(packed[:, :, :3], expected[0][:, :, :3]))
                    self.assertTrue(torch.equal(packed[:, :, 3:], x[:, :, 3:]))

    def test_rows_per_head(self):
        """Also of a packed tensor, whose q and k have rows each."""
        places = [[[0, 1, 2, 3, 4]] * 2, [[7, 8, 9, 0, 1]] * 2]
        table = rotary.Table(rotary.Frequencies(torch.randn(2, 2, 4).double(), pairing="half"), places)
        qkv = torch.randn(2, 4 + 2 + 2, 5, 16)
        q, k, v = qkv.split([4, 2, 2], 1)
        expected = rotary.rotate_qk(q, k, table, layout="bhtd", first=6)
        words = *rows_of(table), "half", "bhtd", 6, False
        with as_on_cuda():
            self.assertTrue(all(map(torch.equal, torch.ops.rotary.rotate_qk(q, k, *words), expected)))
            packed = torch.ops.rotary.rotate(qkv, *words, 2)
        self.assertTrue(torch.equal(packed, torch.cat((*expected, v), 1)))

    def test_gradients(self):
        table, x = table_of(), torch.randn(2, 5, 3, 16, requires_grad=True)
        grad = torch.randn(2, 5, 3, 16)
        expected = torch.autograd.grad(turned(x, table, "bthd"), x, grad)[0]
        with as_on_cuda(), torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
            self.assertTrue(
                torch.equal(torch.autograd.grad(rotary.rotate(x, table, layout="bthd"), x, grad)[0], expected)
            )

    def test_the_c_part_refuses_memory_of_the_cpu(self):
        x, (c, s) = torch.randn(2, 5, 3, 16), rows_of(table_of())
        words = c, s, "half", "bthd", 0, False, 0
        refused(self, "DEVICE", lambda: rotary._core._gpu_rotate(x, None, torch.empty_like(x), None, *words))
