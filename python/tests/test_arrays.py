"""The arrays that the functions take, without a copy, and those that they refuse."""

import ctypes
import gc
import unittest

import numpy as np
import rotary
from doors import jax
from support import numbers, refused, rotated, same_bits
from torch_support import torch

ROPE = rotary.Rope(head_dim=16, pairing="half")
TABLE = rotary.Table(ROPE, range(5))
ROWS = np.asarray(TABLE.cos), np.asarray(TABLE.sin)


def expected(x, layout="thd"):
    return rotated(x, *ROWS, "half", layout)


class OldCapsule:
    """An array whose __dlpack__ knows no versions."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()


class NewCapsule(OldCapsule):
    def __dlpack__(self, *, max_version=None, stream=None):
        assert max_version[0] == 1
        return self.array.__dlpack__(max_version=max_version)


class OnDevice:
    """An array whose DLPack says that it is on a GPU."""

    def __dlpack__(self, *, max_version=None):
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        words = (ctypes.c_int64 * 16)(0, 2)  # data, device {type 2: CUDA, id 0}
        OnDevice.kept = words
        return new(ctypes.addressof(words), b"dltensor", None)


class Numpy(unittest.TestCase):
    def test_refusals(self):
        x = numbers((5, 3, 16))
        frozen = x.copy()
        frozen.flags.writeable = False
        rotate, rotate_ = rotary.rotate, rotary.rotate_
        self.assertTrue(same_bits(rotate(frozen, TABLE, layout="thd"), expected(x)))
        short = rotary.Table(rotary.Rope(head_dim=16, rotary_dim=8, pairing="half"), range(5))
        overlapping = numbers(5 * 3 * 16 + 16)
        a, b = overlapping[:-16].reshape(5, 3, 16), overlapping[16:].reshape(5, 3, 16)
        bytes_off = np.frombuffer(bytearray(5 * 3 * 16 * 4 + 1), np.uint8)[1:].view(np.float32).reshape(5, 3, 16)
        for code, function, given, words in (
            ("VALUE", rotate_, frozen, {}),
            ("VALUE", rotate, x, {"out": frozen}),
            *(("DTYPE", rotate, x.astype(dtype), {}) for dtype in (float, int, ">f4", complex)),
            ("DTYPE", rotate, x, {"out": x.astype(np.float16)}),
            ("DTYPE", rotate_, bytes_off, {}),
            ("SHAPE", rotate, x, {"out": x[:, :2]}),
            ("SHAPE", rotate, numbers((5, 3, 32))[..., ::2], {}),
            ("SHAPE", rotate, x[::-1], {}),
            ("ALIAS", rotate, a, {"out": b}),
            ("ALIAS", rotate, a, {"out": b, "table": short, "first": 6}),
            ("ALIAS", rotary.rotate_qk_, x, {"k": x}),
        ):
            words = {"layout": "thd", "table": TABLE, **words}
            with self.subTest(code=code, function=function.__name__, words=words):
                refused(self, code, lambda: function(given, **words))
        for function, *given in ((rotate, x, TABLE), (rotary.Rope,), (rotary.from_rows, x[0], x[0])):
            with self.assertRaisesRegex(TypeError, "missing .+ required keyword-only argument"):
                function(*given)
        for wrong in ([1.0], None, "x"):
            with self.assertRaises(TypeError):
                rotate(wrong, TABLE, layout="thd")
            with self.assertRaises(TypeError):
                rotary.set_num_threads(wrong)
        self.assertIn("float64", refused(self, "DTYPE", lambda: rotate(x.astype(float), TABLE, layout="thd")))

    def test_errors_of_hostile_objects_are_kept(self):
        def hostile(name, base=object):
            def interrupt(self, *arguments, **words):
                raise KeyboardInterrupt(name)

            return type("Hostile", (base,), {name: interrupt})()

        x, rope, plain = numbers((5, 3, 16)), {"head_dim": 16, "pairing": "half"}, ROPE
        for make in (
            lambda: rotary.rotate(hostile("__dlpack__"), TABLE, layout="thd"),
            lambda: rotary.rotate(x, hostile("__getattr__"), layout="thd"),
            lambda: rotary.rotate(x, TABLE, layout="thd", first=hostile("__index__")),
            lambda: rotary.set_num_threads(hostile("__index__")),
            lambda: rotary.Rope(**{**rope, "head_dim": hostile("__index__")}),
            lambda: rotary.Rope(**rope, base=hostile("__float__")),
            lambda: rotary.Rope(**rope, scaling=hostile("__getattr__")),
            lambda: rotary.makers.Frequencies(hostile("__len__", list), pairing="half"),
            lambda: rotary.makers.Frequencies([hostile("__float__")], pairing="half"),
            lambda: rotary.frequencies(plain, hostile("__index__")),
            lambda: rotary.Table(plain, hostile("__len__", list)),
            lambda: rotary.Table(plain, [hostile("__index__")]),
            lambda: rotary.Table(plain, hostile("__dlpack__")),
            lambda: rotary.makers.sectioned_axes(hostile("__len__", list)),
            lambda: rotary.from_rows(hostile("__dlpack__"), x[0], pairing="half"),
        ):
            with self.assertRaises(KeyboardInterrupt):
                make()

    def test_subclasses(self):
        mine, x = type("Mine", (np.ndarray,), {}), numbers((5, 3, 16))
        y = rotary.rotate(x.view(mine), TABLE, layout="thd")
        self.assertTrue(type(y) is mine and same_bits(np.asarray(y), expected(x)))


class Capsules(unittest.TestCase):
    def test_dlpack(self):
        for wrapper in (OldCapsule, NewCapsule):
            for x in (numbers((5, 3, 16)), numbers((5, 9, 20))[:, ::3, :16]):
                y, turned, out = rotary.rotate(wrapper(x), TABLE, layout="thd"), expected(x), np.zeros_like(x)
                rotary.rotate(wrapper(x), TABLE, layout="thd", out=wrapper(out))
                rotary.rotate_(wrapper(x), TABLE, layout="thd")
                self.assertTrue(same_bits(y, turned) and same_bits(out, turned) and same_bits(x, turned))

    @unittest.skipIf(torch is None, "numpy has no bfloat16 of its own")
    def test_bfloat16_of_another_library_goes_in_place(self):
        x, out = torch.ones(5, 3, 16).bfloat16(), torch.zeros(5, 3, 16).bfloat16()
        refused(self, "DTYPE", lambda: rotary.rotate(OldCapsule(x), TABLE, layout="thd"))
        rotary.rotate(OldCapsule(x), TABLE, layout="thd", out=OldCapsule(out))
        self.assertTrue(torch.equal(out, rotary.rotate(x, TABLE, layout="thd")))

    @unittest.skipIf(np.lib.NumpyVersion(np.__version__) < "2.1.0", "numpy exports no read-only array before 2.1")
    def test_read_only(self):
        x = numbers((5, 3, 16))
        x.flags.writeable = False
        refused(self, "VALUE", lambda: rotary.rotate_(NewCapsule(x), TABLE, layout="thd"))

    def test_memory_of_a_device_and_memory_that_is_seen_longer_than_its_table(self):
        refused(self, "DEVICE", lambda: rotary.rotate(OnDevice(), TABLE, layout="thd"))
        cos = rotary.Table(ROPE, range(5)).cos
        gc.collect()
        self.assertTrue(same_bits(cos, ROWS[0]))


class Buffers(unittest.TestCase):
    def test_memoryview(self):
        x = numbers((5, 3, 16))
        memory = bytearray(x.tobytes())
        view = memoryview(memory).cast("f", (5, 3, 16))
        self.assertTrue(same_bits(rotary.rotate(view, TABLE, layout="thd"), expected(x)))
        self.assertIs(rotary.rotate_(view, TABLE, layout="thd"), view)
        self.assertEqual(bytes(memory), expected(x).tobytes())
        frozen = memoryview(bytes(memory)).cast("f", (5, 3, 16))
        refused(self, "VALUE", lambda: rotary.rotate_(frozen, TABLE, layout="thd"))
        view.release()
        memory.append(1)  # raises if another view of it is left
        refused(self, "DTYPE", lambda: rotary.rotate(bytes(64), TABLE, layout="td"))  # bytes are no floats

    def test_ctypes_arrays_which_show_no_strides(self):
        self.assertEqual(rotary.Table(ROPE, (ctypes.c_int64 * 3)(1, 2, 5)), rotary.Table(ROPE, [1, 2, 5]))
        x = numbers((5, 16))
        memory = (ctypes.c_float * 16 * 5).from_buffer_copy(x.tobytes())
        self.assertEqual(rotary.rotate(memory, TABLE, layout="td").tolist(), expected(x[:, None])[:, 0].tolist())


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(unittest.TestCase):
    def test_tensors_that_the_c_part_alone_refuses(self):
        x = torch.randn(5, 3, 16, requires_grad=True)
        negative = torch._neg_view(torch.arange(5.0))
        self.assertTrue(negative.is_neg())
        for positions in (x[:, 0, 0], negative):
            refused(self, "TORCH", lambda: rotary.Table(ROPE, positions))  # noqa: B023
        with torch.no_grad():
            self.assertEqual(rotary.Table(ROPE, x[:, 0, 0]).tokens, 5)

    def test_memory_that_was_given_back(self):
        """FSDP frees memory like this between its steps."""
        x, gone = torch.randn(5, 3, 16), torch.ones(5, 8)
        column = gone[:, 0]
        gone.untyped_storage().resize_(0)
        for make in (
            lambda: rotary.Table(ROPE, column),
            lambda: rotary.check(ROPE, gone, gone),
            lambda: rotary.rotate(gone, rotary.from_rows(*map(torch.tensor, ROWS), pairing="half"), layout="td"),
            lambda: rotary.rotate(x, rotary.from_rows(gone, gone, pairing="half", repeated=True), layout="thd"),
        ):
            refused(self, "SHAPE", make)


@unittest.skipIf(jax is None, "JAX is not installed")
class Jax(unittest.TestCase):
    def test_arrays_are_never_written_to(self):
        x = jax.numpy.asarray(numbers((5, 3, 16)))
        before = np.asarray(x).copy()
        refused(self, "VALUE", lambda: rotary.rotate_(x, TABLE, layout="thd"))
        refused(self, "VALUE", lambda: rotary.rotate(x, TABLE, layout="thd", out=x))
        self.assertTrue(same_bits(np.asarray(x), before))
        self.assertEqual(rotary.Table(ROPE, jax.numpy.arange(5)), TABLE)
