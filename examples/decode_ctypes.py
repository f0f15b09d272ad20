"""decode.c in Python without a package: ctypes on a shared librotary.

python3 decode_ctypes.py [PATH-OF-LIBROTARY]
"""

import ctypes
import ctypes.util
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_uint32, c_void_p

HEAD_DIM, HEADS, KV_HEADS, PROMPT, TOKENS = 128, 8, 2, 12, 16
HALF, YARN, EXACT, F32, CACHE_F16 = 1, 5, 0, 0, 3

lib = ctypes.CDLL(sys.argv[1] if len(sys.argv) > 1 else ctypes.util.find_library("rotary"))
lib.rotary_error.restype = c_char_p
lib.rotary_table_free.argtypes = lib.rotary_frequencies_free.argtypes = [c_void_p]
lib.rotary_table_make.argtypes = [c_void_p, c_int64, POINTER(c_void_p)]
lib.rotary_frequencies_make.argtypes = [c_void_p, c_int64, POINTER(c_void_p)]
lib.rotary_table_assign.argtypes = [c_void_p, c_void_p, c_void_p, c_int32, c_int32]
lib.rotary_rotate_append.argtypes = [c_void_p] * 7


def check(status):
    if status:
        raise ValueError(lib.rotary_error().decode())


class Struct(ctypes.Structure):
    """Filled by its _init function, then by what is given."""

    def __init__(self, **fields):
        getattr(lib, f"rotary_{type(self).__name__.lower()}_init")(byref(self), ctypes.c_size_t(ctypes.sizeof(self)))
        for name, value in fields.items():
            setattr(self, name, value)


class Rope(Struct):  # as long as what is set: its size says so, and the rest has its default
    _fields_ = [("size", c_uint32), ("head_dim", c_int32), ("rotary_dim", c_int32), ("pairing", c_int32),
                ("base", c_double), ("scaling", c_int32), ("exponent_dim", c_int32), ("clockwise", c_int32),
                ("truncate", c_int32), ("attention_factor", c_double), ("axis", c_void_p), ("index", c_void_p),
                ("inv_freq", c_void_p), ("multiplier", c_void_p), ("factor", c_double), ("trained_length", c_int64)]


class Positions(Struct):
    _fields_ = [("size", c_uint32), ("type", c_int32), ("values", c_void_p), ("first", c_int64), ("tokens", c_int64),
                ("batch", c_int32), ("axes", c_int32)]


class Heads(Struct):
    _fields_ = [("size", c_uint32), ("dtype", c_int32), ("data", c_void_p), ("batch", c_int64), ("tokens", c_int64),
                ("heads", c_int64), ("head_dim", c_int32), ("first", c_int32), ("batch_stride", c_int64),
                ("token_stride", c_int64), ("head_stride", c_int64)]


class Cache(Struct):
    _fields_ = [("size", c_uint32), ("type", c_int32), ("k", c_void_p), ("v", c_void_p), ("pages", c_int64),
                ("heads", c_int64), ("page_size", c_int32), ("head_dim", c_int32), ("page_stride", c_int64),
                ("token_stride", c_int64), ("head_stride", c_int64), ("slots", c_void_p), ("firsts", c_void_p),
                ("first", c_int64)]


def tensor(heads, period, kind=ctypes.c_float):
    count = TOKENS * heads * HEAD_DIM
    return (kind * count)(*(i % period / 64 for i in range(count)) if period else ())


def heads_of(values, first, tokens, heads):
    """Tokens [first, first + tokens) of a contiguous [tokens, heads, head_dim]."""
    x = Heads(data=ctypes.addressof(values) + first * heads * HEAD_DIM * 4, tokens=tokens, heads=heads, head_dim=HEAD_DIM)
    check(lib.rotary_heads_order(byref(x), b"bthd"))
    return x


q, k, v = tensor(HEADS, 89), tensor(KV_HEADS, 97), tensor(KV_HEADS, 31)


def step(table, frequencies, turned, k_cache, v_cache, first, count):
    """q is rotated, k goes rotated and v as it is into the cache of f16."""
    positions = Positions(first=first, tokens=count)
    check(lib.rotary_table_assign(table, frequencies, byref(positions), EXACT, F32))
    cache = Cache(type=CACHE_F16, k=ctypes.addressof(k_cache), v=ctypes.addressof(v_cache), pages=1, page_size=TOKENS,
                  heads=KV_HEADS, head_dim=HEAD_DIM, token_stride=KV_HEADS * HEAD_DIM, head_stride=HEAD_DIM, first=first)
    views = [heads_of(q, first, count, HEADS), heads_of(turned, first, count, HEADS),
             heads_of(k, first, count, KV_HEADS), heads_of(v, first, count, KV_HEADS)]
    check(lib.rotary_rotate_append(*map(byref, views), table, byref(cache), None))


frequencies, table = c_void_p(), c_void_p()
rope = Rope(head_dim=HEAD_DIM, base=1000000, pairing=HALF, scaling=YARN, factor=4, trained_length=32768)
check(lib.rotary_frequencies_make(byref(rope), 0, byref(frequencies)))
check(lib.rotary_table_make(frequencies, TOKENS, byref(table)))
runs = [[tensor(HEADS, 0), tensor(KV_HEADS, 0, ctypes.c_uint16), tensor(KV_HEADS, 0, ctypes.c_uint16)] for _ in range(2)]
step(table, frequencies, *runs[0], 0, PROMPT)
for at in range(PROMPT, TOKENS):
    step(table, frequencies, *runs[0], at, 1)
step(table, frequencies, *runs[1], 0, TOKENS)
same = all(bytes(a) == bytes(b) for a, b in zip(*runs))
print("token by token and all at once:", "the same bits" if same else "DIFFERENT")
lib.rotary_table_free(table)
lib.rotary_frequencies_free(frequencies)
sys.exit(not same)
