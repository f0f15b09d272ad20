"""The making of cos and sin in float32: rotary's exact table beside the steps of the frameworks."""

import ctypes
from time import perf_counter, process_time

import numpy as np

from cells import BASE, HEAD_DIM, PAIRS

TOKENS = 131072


def numpy_float32():
    import numpy

    inv_freq = (BASE ** (-np.arange(PAIRS) / PAIRS)).astype(np.float32)
    positions = np.arange(TOKENS, dtype=np.float32)
    angles, cos, sin = (np.empty((TOKENS, PAIRS), np.float32) for _ in range(3))

    def call():
        np.outer(positions, inv_freq, out=angles)
        np.cos(angles, out=cos)
        np.sin(angles, out=sin)

    return "numpy float32", numpy.__version__, call, lambda: (cos, sin)


def numpy_float64():
    inv_freq = BASE ** (-np.arange(PAIRS) / PAIRS)
    positions = np.arange(TOKENS, dtype=np.float64)
    angles, wide = (np.empty((TOKENS, PAIRS)) for _ in range(2))
    cos, sin = (np.empty((TOKENS, PAIRS), np.float32) for _ in range(2))

    def call():
        np.outer(positions, inv_freq, out=angles)
        cos[...] = np.cos(angles, out=wide)
        sin[...] = np.sin(angles, out=wide)

    return "numpy float64, rounded", np.__version__, call, lambda: (cos, sin)


def torch_float32():
    import torch

    inv_freq = torch.tensor(BASE ** (-np.arange(PAIRS) / PAIRS), dtype=torch.float32)
    positions = torch.arange(TOKENS, dtype=torch.float32)
    angles, cos, sin = (torch.empty((TOKENS, PAIRS)) for _ in range(3))

    @torch.inference_mode()
    def call():
        torch.outer(positions, inv_freq, out=angles)
        torch.cos(angles, out=cos)
        torch.sin(angles, out=sin)

    return "PyTorch float32", torch.__version__, call, lambda: (cos.numpy(), sin.numpy())


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
            library.peers_table(TOKENS, HEAD_DIM, BASE, 1, None, None)
            middle = clock()
            call()
            rotary.append(middle - start)
            mine.append(clock() - middle)
        results.version(peer, version)
        per_pair = 1e9 / (TOKENS * PAIRS)
        results.row(keys, peer, results.of(mine) * per_pair, results.of(rotary) * per_pair,
                    largest_error=largest_error(*result()), rotary_largest_error=own_error)  # fmt: skip
