"""The making of cos and sin in float32: rotary's exact table beside the steps of the frameworks."""

import ctypes
from time import perf_counter, process_time

import numpy as np

from cells import BASE, HEAD_DIM, PAIRS

TOKENS = 131072


def steps(module, dtype, outer, empty):
    """angles, cos and sin of all positions by the functions of numpy or torch, into memory allocated before; a call, and
    its results in float32."""
    inv_freq = BASE ** (-np.arange(PAIRS) / PAIRS)
    given = (np.arange(TOKENS, dtype=dtype), inv_freq.astype(dtype))
    positions, turns = map(module.from_numpy, given) if module is not np else given
    angles, wide = (empty((TOKENS, PAIRS), positions.dtype) for _ in range(2))
    cos, sin = (empty((TOKENS, PAIRS), getattr(module, "float32")) for _ in range(2))

    def call():
        outer(positions, turns, out=angles)
        for function, out in ((module.cos, cos), (module.sin, sin)):
            if dtype == np.float32:
                function(angles, out=out)
            else:
                out[...] = function(angles, out=wide)

    return call, lambda: (np.asarray(cos), np.asarray(sin))


def torch_float32():
    import torch

    call, result = steps(torch, np.float32, torch.outer, lambda shape, dtype: torch.empty(shape, dtype=dtype))
    return "PyTorch float32", torch.__version__, torch.inference_mode()(call), result


def numpy_float32():
    return "numpy float32", np.__version__, *steps(np, np.float32, np.outer, np.empty)


def numpy_float64():
    return "numpy float64, rounded", np.__version__, *steps(np, np.float64, np.outer, np.empty)


def largest_error(cos: np.ndarray, sin: np.ndarray) -> float:
    """Over every 64th position and the last."""
    at = np.append(np.arange(0, TOKENS, 64), TOKENS - 1)
    angles = np.outer(at, BASE ** (-np.arange(PAIRS) / PAIRS))
    return float(max(np.abs(cos[at] - np.cos(angles)).max(), np.abs(sin[at] - np.sin(angles)).max()))


def measure_tables(library: ctypes.CDLL, names: list[str], rounds: int, results) -> None:
    """results gets a row a peer."""
    cos, sin = (np.empty((TOKENS, PAIRS), np.float32) for _ in range(2))
    pointers = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for array in (cos, sin)]
    library.peers_table(TOKENS, HEAD_DIM, BASE, 1, *pointers)
    own_error = largest_error(cos, sin)
    clock = process_time if results.processor_time else perf_counter
    keys = {"op": "table", "dtype": "f32", "pairing": "half", "layout": "", "tokens": TOKENS, "heads": 0, "kv_heads": 0,
            "head_dim": HEAD_DIM, "rotary_dim": HEAD_DIM, "in_place": False, "threads": 1}  # fmt: skip
    for make in (torch_float32, numpy_float32, numpy_float64):
        try:
            peer, version, call, result = make()
        except ImportError as error:
            results.missing(make.__name__, str(error))
            continue
        if names and not any(name in peer.lower() for name in names):
            continue
        call()
        mine, rotary = [], []
        for _ in range(rounds):
            start = clock()
            library.peers_table(TOKENS, HEAD_DIM, BASE, 1, *pointers)
            middle = clock()
            call()
            rotary.append(middle - start)
            mine.append(clock() - middle)
        results.versions[peer] = version
        per_pair = 1e9 / (TOKENS * PAIRS)
        results.row(keys, peer, results.of(mine) * per_pair, results.of(rotary) * per_pair,
                    largest_error=largest_error(*result()), rotary_largest_error=own_error)  # fmt: skip
