"""The work: a cell is one dtype, pairing, number of tokens and way of writing; all peers get the same q and k."""

from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

import numpy as np

HEADS, KV_HEADS, HEAD_DIM, BASE = 32, 8, 128, 500000.0
PAIRS = HEAD_DIM // 2
DTYPES = ("f32", "bf16", "f16")
PAIRINGS = ("half", "interleaved")
TOKENS, CUDA_TOKENS = (1, 64, 2048, 8192), (1, 8, 64, 512, 8192, 32768)
PAGE = 4096
DECODE_POSITION = 4095  # the position of the one token of a decode step

# How far a result may be from float64, given |x| < 6: a rounding or two of the format for who gets the table. HF's
# expression rounds cos, sin, both products and the sum to the format. An engine that forms its angles in float32 is
# off by up to position * 2^-24 radians more, several times over if it multiplies its way along.
TOLERANCE = {"f32": 1e-5, "bf16": 0.08, "f16": 0.01}
OWN_ANGLES = 0.02


def to_storage(values: np.ndarray, dtype: str) -> np.ndarray:
    """float32 to the dtype; bf16 as its bits, uint16, which numpy has no type for."""
    if dtype == "f32":
        return values
    if dtype == "f16":
        return values.astype(np.float16)
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_storage(values: np.ndarray) -> np.ndarray:
    if values.dtype == np.uint16:
        return (values.astype(np.uint32) << 16).view(np.float32)
    return np.asarray(values, np.float32)


def aligned(values: np.ndarray, offset: int = 0) -> np.ndarray:
    """A copy that begins so many bytes behind the start of a page."""
    memory = np.zeros(values.nbytes + PAGE + offset, np.uint8)
    start = -memory.ctypes.data % PAGE + offset
    copy = memory[start : start + values.nbytes].view(values.dtype).reshape(values.shape)
    copy[...] = values
    return copy


@dataclass
class Cell:
    dtype: str
    pairing: str
    tokens: int
    in_place: bool
    device: str = "cpu"  # or "cuda"
    inputs: dict = field(default_factory=dict, repr=False, compare=False)  # shared by the cells of one dtype and length

    @property
    def elements(self) -> int:
        return self.tokens * (HEADS + KV_HEADS) * HEAD_DIM

    @property
    def interleaved(self) -> bool:
        return self.pairing == "interleaved"

    @cached_property
    def positions(self) -> np.ndarray:
        return np.array([DECODE_POSITION], np.int64) if self.tokens == 1 else np.arange(self.tokens, dtype=np.int64)

    @cached_property
    def angles(self) -> np.ndarray:
        return np.outer(self.positions.astype(np.float64), BASE ** (-np.arange(PAIRS) / PAIRS))

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """cos and sin, float32 [tokens, 64]."""
        return np.cos(self.angles).astype(np.float32), np.sin(self.angles).astype(np.float32)

    def source(self, name: str) -> np.ndarray:
        """q or k, [1, tokens, heads, head_dim], in storage type; never written."""
        heads = HEADS if name == "q" else KV_HEADS
        key = (name, self.dtype, self.tokens)
        if key not in self.inputs:
            values = np.random.default_rng(heads).standard_normal((1, self.tokens, heads, HEAD_DIM), np.float32)
            self.inputs[key] = aligned(to_storage(np.clip(values, -5.9, 5.9), self.dtype))
        return self.inputs[key]

    def work(self, name: str) -> np.ndarray:
        """A copy of q or k that a peer may write, half a page apart from the source: loads and stores wait for each
        other where their addresses agree in the last twelve bits."""
        return aligned(self.source(name), PAGE // 2)

    def tensors(self) -> tuple[np.ndarray, ...]:
        """q, k and where they go, q_out and k_out: in place the same."""
        if self.in_place:
            q, k = self.work("q"), self.work("k")
            return q, k, q, k
        return self.source("q"), self.source("k"), self.work("q"), self.work("k")

    def expected(self, name: str, at: np.ndarray) -> np.ndarray:
        """float64, [len(at), heads, head_dim]."""
        x = from_storage(self.source(name)[0, at]).astype(np.float64)
        cos, sin = np.cos(self.angles[at])[:, None], np.sin(self.angles[at])[:, None]
        (first, second), out = self.members(x), np.empty_like(x)
        for member, turned in zip(self.members(out), (first * cos - second * sin, second * cos + first * sin)):
            member[...] = turned
        return out

    def members(self, x: np.ndarray):
        """Views of the first and second member of every pair."""
        return (x[..., 0::2], x[..., 1::2]) if self.interleaved else (x[..., :PAIRS], x[..., PAIRS:])

    def compared(self) -> np.ndarray:
        """256 tokens at most, the first and the last among them."""
        return np.unique(np.linspace(0, self.tokens - 1, 256).astype(int))

    def difference(self, q: np.ndarray, k: np.ndarray) -> float:
        """The largest difference from float64. q and k: the compared tokens, [tokens, heads, head_dim], as stored."""
        at = self.compared()
        found = {"q": np.ascontiguousarray(q), "k": np.ascontiguousarray(k)}
        return max(float(np.max(np.abs(from_storage(x) - self.expected(name, at)))) for name, x in found.items())

    def keys(self) -> dict:
        """The names and values that describe the cell, in JSON and for --filter."""
        return {"device": self.device, "dtype": self.dtype, "pairing": self.pairing,
                "tokens": self.tokens, "in_place": self.in_place}  # fmt: skip

    def __str__(self) -> str:
        place = "in place" if self.in_place else "out of place"
        return f"{self.dtype} {self.pairing} {self.tokens} {place}"


def grid(device: str) -> list[Cell]:
    """Neighbours share their inputs."""
    cells = []
    for dtype, count in product(DTYPES, TOKENS if device == "cpu" else CUDA_TOKENS):
        inputs: dict = {}
        cells += [Cell(dtype, pairing, count, in_place, device, inputs)
                  for pairing, in_place in product(PAIRINGS, (True, False))]
    return cells
