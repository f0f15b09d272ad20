"""What a peer is, and the table of peers."""

import importlib
from dataclasses import dataclass
from importlib import metadata
from time import perf_counter
from typing import Callable

import numpy as np

from cells import Cell


class Unavailable(Exception):
    """Why a peer is not there, or has no such cell: one line."""


@dataclass
class Run:
    """A cell, ready: tables made, outputs allocated where the peer's API takes them, compiled."""

    repeat: Callable[[int], float]  # seconds of so many repetitions
    result: Callable[[], tuple[np.ndarray, np.ndarray]]  # q and k of the last, [tokens, heads, head_dim], storage type
    anew: bool = False  # in an in-place cell: the peer writes its result to new memory
    release: Callable[[], None] = lambda: None
    keeps: object = None  # memory that the peer holds by address alone


def in_python(call: Callable[[], object]) -> Callable[[int], float]:
    """Repeats a Python call: the dispatch is the peer's own."""

    def repeat(repetitions: int) -> float:
        start = perf_counter()
        for _ in range(repetitions):
            call()
        return perf_counter() - start

    return repeat


class Peer:
    """On the CPU a peer prepares a cell; on a CUDA device it binds each set of a cell's tensors (torch_peers.py)."""

    name = ""
    package = ""  # on PyPI
    own_angles = False  # forms its angles itself, in float32
    needs_library = False  # is made with librotary_peers.so, or librotary_peers_cuda.so
    extra = False  # another way of calling rotary: shown, not counted as a peer

    def version(self) -> str:
        return metadata.version(self.package)

    def refuse(self, cell: Cell) -> str:
        """Why it cannot do this cell, or nothing."""
        return ""

    def prepare(self, cell: Cell) -> Run:
        raise NotImplementedError


# Module, class, where it runs. A row here and a class of at most sixty lines is a new peer.
PEERS = (
    ("native", "RotaryTwoCalls", "cpu"),
    ("native", "RotaryFromPython", "cpu"),
    ("native", "PlainLoop", "cpu"),
    ("torch_peers", "TorchEager", "cpu cuda"),
    ("torch_peers", "TorchOut", "cpu cuda"),
    ("torch_peers", "TorchCompile", "cpu cuda"),
    ("torch_peers", "RotaryEmbeddingTorch", "cpu"),
    ("graph_peers", "OnnxContrib", "cpu"),
    ("graph_peers", "OnnxOpset23", "cpu"),
    ("graph_peers", "OpenVino", "cpu"),
    ("array_frameworks", "Jax", "cpu"),
    ("array_frameworks", "Mlx", "cpu"),
    ("ggml_peer", "Ggml", "cpu"),
    ("arrays", "Numpy", "cpu"),
    ("arrays", "Numba", "cpu"),
    ("cuda_kernels", "RotaryTwoCalls", "cuda"),
    ("cuda_kernels", "RotaryNoTable", "cuda"),
    ("cuda_kernels", "Liger", "cuda"),
    ("cuda_kernels", "FlashInfer", "cuda"),
    ("cuda_kernels", "Fla", "cuda"),
    ("cuda_kernels", "FlagGems", "cuda"),
)


def installed(device: str, library, names: list[str], results) -> list[Peer]:
    """The peers of the device whose names contain one of these, and rotary's other ways; results hears of those whose
    packages cannot be loaded."""
    wanted = lambda name: not names or any(part in name.lower() for part in names)  # noqa: E731
    peers = []
    for module, kind, devices in PEERS:
        if device not in devices.split():
            continue
        try:
            peer = getattr(importlib.import_module(module), kind)
            if peer.extra or wanted(peer.name) or wanted(kind):
                made = peer(library) if peer.needs_library else peer()
                results.versions[peer.name] = made.version()
                peers.append(made)
        except Exception as error:  # whatever an import throws: a missing package, a library of another machine
            if wanted(kind):
                results.missing(kind, f"{type(error).__name__}: {error}")
    return peers
