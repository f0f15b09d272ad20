"""Whose arrays rotary takes, and every way that each has to a function: what test_rotate.py goes through."""

import contextlib
import copy
import unittest
from unittest import mock

import numpy as np
import rotary
from support import bfloat16, same_bits
from torch_support import Seen, eager, rows_of, straight_calls, torch

if torch is not None:
    from rotary._torch import ops, plain

try:
    import jax

    jax.ffi  # versions that rotary.jax takes have it
except (ImportError, AttributeError):
    jax = None


class Numpy:
    """Arrays are made of numpy's and read as them: float32, of float64 that."""

    there, dtypes = True, ("float32", "float16", *(["bfloat16"] if bfloat16 is not None else []))

    def make(self, x, dtype):
        return x.astype(bfloat16 if dtype == "bfloat16" else dtype)

    def read(self, array):
        return np.asarray(array).astype(np.float32)

    def turns(self):
        return [rotary.rotate]

    def ways(self, function, given, table, *more, **words):
        """The function's results: in new arrays, in given ones, in place."""
        new, in_place = (getattr(rotary, name) for name in (function, function + "_"))
        outs, places = copy.deepcopy(given), copy.deepcopy(given)
        for out in outs:
            out[...] = 0
        made = [
            listed(new(*given, table, *more, **words)),
            listed(new(*given, table, *more, out=tuple(outs) if len(outs) > 1 else outs[0], **words)),
            listed(in_place(*places, table, *more, **words)),
        ]
        assert all(a is b for a, b in zip(made[1] + made[2], [*outs, *places], strict=True))
        return made


class Torch(Numpy):
    """And by an op, as where a gradient is recorded; and by rows that are tensors."""

    there, dtypes = torch is not None, ("float32", "float16", "bfloat16", "float64")

    def make(self, x, dtype):
        return torch.tensor(np.asarray(x)).to(getattr(torch, dtype))

    def read(self, array):
        return (array.detach() if array.dtype == torch.float64 else array.detach().float()).numpy()

    def turns(self):
        return [rotary.rotate, lambda x, *more, **words: rotary.rotate(x.clone().requires_grad_(), *more, **words)]

    def ways(self, function, given, table, *more, **words):
        with straight_calls() as calls:
            made = super().ways(function, given, table, *more, **words)
        assert len(calls) == (0 if given[0].dtype == torch.float64 else 3), calls
        assert [y.stride() for y in made[0]] == [x.stride() for x in given]
        recorded = [x.clone().requires_grad_() for x in given]
        tensors = rotary.from_rows(*rows_of(table), pairing=table.pairing, repeated=True)
        for rows in (table, tensors):
            with Seen() as seen:
                made.append(listed(getattr(rotary, function)(*recorded, rows, *more, **words)))
            assert seen.names and all(y.requires_grad for y in made[-1])
        made.append(listed(getattr(rotary, function)(*given, tensors, *more, **words)))
        self.check_gradients(function, recorded, made[3], table, *more, **words)
        return made

    def check_gradients(self, function, recorded, made, table, *more, **words):
        """They are the rotation the other way."""
        grads = [torch.randn_like(x) for x in made]
        got = torch.autograd.grad(made, recorded, grads)
        if "query_scale" not in words:
            words["direction"] = "backward" if words["direction"] == "forward" else "forward"
            assert all(map(torch.equal, got, listed(getattr(rotary, function)(*grads, table, *more, **words))))


class Cuda(Torch):
    """The arguments of the CUDA kernels, with a stand-in on the CPU: the kernels' tests are gpu/tests."""

    STREAM = 1234

    def kernel(self, q, k, q_out, k_out, cos, sin, pairing, layout, first, backward, stream):
        """As _core._gpu_rotate is described: elements before `first` are not written."""
        assert stream == self.STREAM and cos.is_contiguous() and sin.is_contiguous() and cos.dtype == torch.float32
        for x, out in ((q, q_out), (k, k_out)):
            if x is not None:
                assert x.stride(-1) == 1 and out.stride(-1) == 1
                words = pairing, layout, first, backward
                y = plain.rotated(x, cos, sin, plain.How(*words)) if cos.dim() == 4 else eager(x, cos, sin, *words)
                out[..., first:] = y[..., first:]

    def ways(self, function, given, table, *more, **words):
        recorded = [torch.stack((x, x), -1)[..., 0].requires_grad_() for x in given]  # heads with gaps
        rows = rotary.from_rows(*rows_of(table, torch.float64), pairing=table.pairing, repeated=True)
        core = mock.Mock(**{"_gpu_rotate.side_effect": self.kernel})
        device, stream = (lambda _: contextlib.nullcontext()), (lambda _: mock.Mock(cuda_stream=self.STREAM))
        with (
            mock.patch.multiple(ops, has_cuda_kernels=lambda x: x.dtype != torch.float64, _core=core),
            mock.patch.multiple(torch.cuda, device=device, current_stream=stream),
        ):
            made = listed(getattr(rotary, function)(*recorded, rows, *more, **words))
            self.check_gradients(function, recorded, made, table, *more, **words)
        assert core._gpu_rotate.called == (given[0].dtype != torch.float64)
        return [made]


class Jax(Numpy):
    """By the C++ part, and by rotary.jax: of a table, and of rows that are traced."""

    there, dtypes = jax is not None, ("float32", "float16", "bfloat16")

    def make(self, x, dtype):
        return jax.numpy.asarray(x).astype(dtype)

    def read(self, array):
        return np.asarray(array.astype("float32"))

    def turns(self):
        traced = lambda x, *more, **words: jax.eval_shape(  # noqa: E731
            lambda x: rotary.jax.rotate(x, *more, **words), x)
        return [rotary.rotate, rotary.jax.rotate, traced]

    def ways(self, function, given, table, *more, **words):
        made = [getattr(rotary, function)(*given, table, *more, **words)]
        turn = getattr(rotary.jax, function, None)
        if turn is not None:
            made.append(turn(*given, table, **words))
            if words["direction"] == "backward":
                traced = jax.jit(lambda *inputs: turn(*inputs, pairing=table.pairing, **words))
                made.append(traced(*given, *rotary.jax.rows(table)))
        return [*map(listed, made)]


def listed(made):
    return list(made) if isinstance(made, tuple) else [made]


class Case(unittest.TestCase):
    DOORS = [kind() for kind in (Numpy, Torch, Jax) if kind.there]

    def same(self, door, function, given, expected, table, *more, **words):
        """Every way of the door gives these bits, rounded to the types of what is given, which stays as it is."""
        words = {"direction": "forward", **words}
        dtypes = [str(x.dtype).removeprefix("torch.") for x in given]
        wanted = [door.read(door.make(x, dtype)) for x, dtype in zip(expected, dtypes, strict=True)]
        before = [door.read(x).copy() for x in given]
        for way, made in enumerate(door.ways(function, given, table, *more, **words)):
            self.assertEqual([(type(y), y.dtype) for y in made], [(type(x), x.dtype) for x in given])
            self.assertTrue(all(map(same_bits, map(door.read, made), wanted)), (type(door), function, way, words))
        self.assertTrue(all(map(same_bits, map(door.read, given), before)))
