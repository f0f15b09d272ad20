"""The class of a peer, and the table of peers."""

import importlib
import sys
from dataclasses import dataclass
from importlib import metadata
from time import perf_counter
from typing import Callable

import numpy as np


class Unavailable(Exception):
    """Why a peer is not there, or has no such cell: one line."""


@dataclass
class Run:
    """A cell, ready: tables made, outputs allocated where the peer's API takes them, compiled."""

    repeat: Callable[[int], float]  # seconds of so many repetitions
    result: Callable[[], tuple[np.ndarray, np.ndarray]]  # q and k of the last, [tokens, heads, head_dim], storage type
    anew: bool = False  # in an in-place cell: the peer writes its result to new memory
    keeps: object = None  # memory that the peer holds by address alone


def in_python(call: Callable[[], object]) -> Callable[[int], float]:
    """Repeats a Python call: the dispatch is the peer's own."""

    def repeat(repetitions: int) -> float:
        start = perf_counter()
        for _ in range(repetitions):
            call()
        return perf_counter() - start

    return repeat


@dataclass
class Peer:
    """A row of the table. Its function prepares a cell: prepare(cell) gives a Run. That of a `binds` row takes torch's
    tensors instead, bind(tensors) gives the call that turns q and k once and returns them first (torch_peers.py), on
    the CPU and on a CUDA device. Both raise Unavailable where the peer has no such cell."""

    name: str
    package: str  # on PyPI; "": rotary's own library
    place: str  # "module.function", imported where the package is there
    devices: str = "cpu"
    binds: bool = False
    anew: bool = False  # with `binds`: in an in-place cell it writes its result to new memory
    own_angles: bool = False  # forms its angles itself, in float32
    function: Callable | None = None
    version: str = ""

    def load(self) -> None:
        """Throws what imports throw. A function has an attribute `version` if it knows better than its package."""
        version = metadata.version(self.package) if self.package else ""
        module, _, name = self.place.partition(".")
        self.function = getattr(importlib.import_module(module), name)
        self.version = getattr(self.function, "version", str)(version)

    def prepare(self, cell) -> Run:
        """On the CPU."""
        return importlib.import_module("torch_peers").on_cpu(self, cell) if self.binds else self.function(cell)


# A row here, a function, and a line in requirements.txt or requirements-gpu.txt is a new peer. rotary is the first of
# each device.
PEERS = (
    Peer("rotary", "", "native.rotary"),
    Peer("rotary", "", "torch_peers.rotary", "cuda", binds=True),
    Peer("rotary, overlapped", "", "torch_peers.overlapped", "cuda", binds=True),
    Peer("plain C loop", "", "native.plain_loop"),
    Peer("PyTorch eager", "torch", "torch_peers.eager", "cpu cuda", binds=True, anew=True),
    Peer("torch.compile", "torch", "torch_peers.compiled", "cpu cuda", binds=True),
    Peer("ONNX Runtime", "onnxruntime", "onnx_runtime.prepare"),
    Peer("ggml", "llama-cpp-python", "native.ggml", own_angles=True),
    Peer("Liger", "liger-kernel", "torch_peers.liger", "cuda", binds=True),
    Peer("flashinfer", "flashinfer-python", "torch_peers.flashinfer", "cuda", binds=True),
)


def chosen_peers(device: str, names: list[str]) -> list[Peer]:
    """rotary, and the peers of the device whose names contain one of these; all if there are none."""
    here = [peer.name.lower() for peer in PEERS if device in peer.devices.split()]
    for name in names:
        if not any(name in one for one in here):
            sys.exit(f"peers.sh: no peer of {device} is named {name}; there are: {', '.join(here)}")
    wanted = ["rotary", *(names or [""])]
    return [peer for peer in PEERS
            if device in peer.devices.split() and any(name in peer.name.lower() for name in wanted)]


def loaded(peers: list[Peer], results) -> list[Peer]:
    """The peers whose packages are installed; `results` records the others."""
    found = []
    for peer in peers:
        try:
            peer.load()
            results.versions[peer.name] = peer.version
            found.append(peer)
        except Exception as error:  # whatever an import throws: a missing package, a library of another machine
            results.missing(peer.name, f"{type(error).__name__}: {error}")
    return found
