"""The peers: module, class. A row here and a class of at most sixty lines is a new peer."""

import ctypes
import importlib

import native

PEERS = (
    ("torch_peers", "TorchEager"),
    ("torch_peers", "TorchOut"),
    ("torch_peers", "TorchCompile"),
    ("torch_peers", "RotaryEmbeddingTorch"),
    ("graph_peers", "OnnxContrib"),
    ("graph_peers", "OnnxOpset23"),
    ("graph_peers", "OpenVino"),
    ("array_frameworks", "Jax"),
    ("array_frameworks", "Mlx"),
    ("ggml_peer", "Ggml"),
    ("arrays", "Numpy"),
    ("arrays", "Numba"),
)


def installed(library: ctypes.CDLL, names: list[str], results) -> list:
    """The peers whose packages can be loaded; results hears of the others."""
    wanted = lambda name: not names or any(part in name.lower() for part in names)  # noqa: E731
    own = (native.RotaryTwoCalls, native.RotaryFromPython, native.PlainLoop)
    peers = [kind(library) for kind in own if kind.extra or wanted(kind.name)]
    for peer in peers:
        results.version(peer.name, peer.version())
    for module, kind in PEERS:
        try:
            peer = getattr(importlib.import_module(module), kind)
            if wanted(peer.name):
                peers.append(peer(library) if getattr(peer, "needs_library", False) else peer())
                results.version(peers[-1].name, peers[-1].version())
        except Exception as error:  # whatever an import throws: a missing package, a library of another machine
            if wanted(kind):
                results.missing(kind, f"{type(error).__name__}: {error}")
    return peers
