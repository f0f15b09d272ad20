"""The libraries whose arrays rotary takes, and all ways in which each calls a function, for test_rotate.py."""

import copy
import unittest

import numpy as np
import rotary
from support import bfloat16, same_bits
from torch_support import Seen, rows_of, straight_calls, torch

try:
    import jax

    jax.ffi  # absent from versions that are too old for rotary.jax
except (ImportError, AttributeError):
    jax = None


class Numpy:
    """numpy's arrays. read() gives float32; Torch's gives float64 for float64."""

    there, dtypes = True, ("float32", "float16", *(["bfloat16"] if bfloat16 is not None else []))

    def make(self, x, dtype):
        return x.astype(bfloat16 if dtype == "bfloat16" else dtype)

    def read(self, array):
        return np.asarray(array).astype(np.float32)

    def turns(self):
        return [rotary.rotate]

    def ways(self, function, given, table, **words):
        """The results of the function in new arrays, in given ones, and in place."""
        new, in_place = (getattr(rotary, name) for name in (function, function + "_"))
        outs, places = [0 * x for x in given], copy.deepcopy(given)
        results = [new(*given, table, **words),
                   new(*given, table, out=tuple(outs) if len(outs) > 1 else outs[0], **words),
                   in_place(*places, table, **words)]  # fmt: skip
        results = [*map(listed, results)]
        assert all(a is b for a, b in zip(results[1] + results[2], [*outs, *places], strict=True))
        return results


class Torch(Numpy):
    """torch's tensors: also with a recorded gradient, which calls the op, and with rows that are tensors."""

    there, dtypes = torch is not None, ("float32", "float16", "bfloat16", "float64")

    def make(self, x, dtype):
        return torch.tensor(np.asarray(x)).to(getattr(torch, dtype))

    def read(self, array):
        return (array.detach() if array.dtype == torch.float64 else array.detach().float()).numpy()

    def turns(self):
        return [rotary.rotate, lambda x, *more, **words: rotary.rotate(x.clone().requires_grad_(), *more, **words)]

    def ways(self, function, given, table, **words):
        with straight_calls() as calls:
            results = super().ways(function, given, table, **words)
        assert len(calls) == (0 if given[0].dtype == torch.float64 else 3), calls
        assert [y.stride() for y in results[0]] == [x.stride() for x in given]
        tensors = rotary.from_rows(*rows_of(table), pairing=table.pairing, repeated=True)
        recorded = [x.clone().requires_grad_() for x in given]
        with Seen() as seen:
            results += [self.recorded(function, recorded, rows, **words) for rows in (table, tensors)]
        assert len(seen.names) >= 4  # each forwards and backwards
        return [*results, listed(getattr(rotary, function)(*given, tensors, **words))]

    def recorded(self, function, given, table, **words):
        """The results, after a check that their gradients are the rotation in the other direction."""
        results = listed(getattr(rotary, function)(*given, table, **words))
        grads = [torch.randn_like(x) for x in results]
        got = torch.autograd.grad(results, given, grads)
        if "query_scale" not in words:
            words["direction"] = "backward" if words["direction"] == "forward" else "forward"
            assert all(map(torch.equal, got, listed(getattr(rotary, function)(*grads, table, **words))))
        return results


class Jax(Numpy):
    """JAX's arrays: by the C++ part, and by rotary.jax with a table and with traced rows."""

    there, dtypes = jax is not None, ("float32", "float16", "bfloat16")

    def make(self, x, dtype):
        return jax.numpy.asarray(x).astype(dtype)

    def read(self, array):
        return np.asarray(array.astype("float32"))

    def turns(self):
        traced = lambda x, *more, **words: jax.eval_shape(  # noqa: E731
            lambda x: rotary.jax.rotate(x, *more, **words), x)
        return [rotary.rotate, rotary.jax.rotate, traced]

    def ways(self, function, given, table, **words):
        results = [getattr(rotary, function)(*given, table, **words)]
        turn = getattr(rotary.jax, function, None)
        if turn is not None:
            results.append(turn(*given, table, **words))
            if words["direction"] == "backward":
                traced = jax.jit(lambda *inputs: turn(*inputs, pairing=table.pairing, **words))
                results.append(traced(*given, *rotary.jax.table(table)))
        return [*map(listed, results)]


def listed(results):
    return list(results) if isinstance(results, tuple) else [results]


class Case(unittest.TestCase):
    DOORS = [kind() for kind in (Numpy, Torch, Jax) if kind.there]

    def same(self, door, function, given, expected, table, **words):
        """Checks that every way gives the expected bits in the given arrays' types and leaves these unchanged."""
        words = {"direction": "forward", **words}
        dtypes = [str(x.dtype).removeprefix("torch.") for x in given]
        wanted = [door.read(door.make(x, dtype)) for x, dtype in zip(expected, dtypes, strict=True)]
        before = [door.read(x).copy() for x in given]
        for way, results in enumerate(door.ways(function, given, table, **words)):
            self.assertEqual([(type(y), y.dtype) for y in results], [(type(x), x.dtype) for x in given])
            self.assertTrue(all(map(same_bits, map(door.read, results), wanted)), (type(door), function, way, words))
        self.assertTrue(all(map(same_bits, map(door.read, given), before)))
