"""Positions of tokens in packed, masked, sharded and multimodal inputs, as in rotary/positions.h.

Functions take arrays or lists of integers and return int64 arrays of numpy. Errors are rotary.Error with the code
POSITION, or SHAPE or DTYPE for an array.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from . import _core, _memory
from ._config import _named
from ._types import Source

Split = Literal["contiguous", "zigzag", "striped"]

__all__ = [
    *("Split", "dual_chunk", "held_tokens", "image", "mask", "model", "packed", "place_of_tokens", "self_extend"),
    "shard_tokens",
]


def _array(function: str, **words: Any) -> Any:
    return _memory.view(*_core._positions(function, words))


def _arrays(function: str, **words: Any) -> Any:
    return tuple(_memory.view(*array) for array in _core._positions(function, words))


def packed(cu_seqlens: Any) -> Any:
    """Positions in a packed batch, [tokens]: each sequence counts from 0.

    cu_seqlens: the bounds of the sequences, from 0 to the number of tokens.
    """
    return _array("packed", cu_seqlens=_memory.positions(cu_seqlens))


def mask(mask: Any) -> Any:
    """Positions as generate() of transformers 5.24 counts them, with padding on either side and in between.

    A visible token has the number of visible tokens before it in its row, a masked one 0. mask: integers or bools,
    [tokens] or [batch, tokens], 0 for padding. The result has its shape.
    """
    return _array("mask", mask=_memory.positions(mask))


def image(rows: int, columns: int, *, merge: int = 1) -> Any:
    """Rows and columns of an image's patches, [2, rows * columns].

    merge: above 1, the patches are in blocks of merge x merge, the order of models that merge patches; else row by row.
    """
    return _array("image", rows=rows, columns=columns, merge=merge)


def shard_tokens(split: Split, rank: int, ranks: int, cu_seqlens: Any) -> Any:
    """The tokens that context parallelism gives to a rank, in its order.

    Args:
        split: "contiguous" (Ring Attention), "zigzag" (Megatron-LM, ring-flash-attention) or "striped".
        rank: the rank's number, from 0.
        ranks: the number of ranks.
        cu_seqlens: as in packed(); each sequence is split separately. [0, tokens] for one sequence.
    """
    return _array("shard_tokens", split=split, rank=rank, ranks=ranks, cu_seqlens=_memory.positions(cu_seqlens))


def place_of_tokens(split: Split, ranks: int, cu_seqlens: Any) -> Any:
    """The inverse permutation: the place of each token in the concatenated shards of all ranks.

    gathered[place_of_tokens(...)] is in the order of the tokens again. Arguments: see shard_tokens().
    """
    return _array("place_of_tokens", split=split, ranks=ranks, cu_seqlens=_memory.positions(cu_seqlens))


def held_tokens(window: int, sinks: int, token: int) -> tuple[Any, Any]:
    """The tokens in a sliding window with attention sinks once a token is stored (StreamingLLM, arXiv 2309.17453).

    Args:
        window: the number of tokens in the cache: the sinks and the newest ones.
        sinks: the number of sinks, the first tokens.
        token: the newest token, from 0.

    Returns:
        (tokens, positions), one of each for each slot of the cache. The newest tokens keep their slots and positions.
        The sinks, stored at positions 0, 1, ..., move to right before them: rotary.Table.between turns their keys.
    """
    return _arrays("held_tokens", window=window, sinks=sinks, token=token)


def dual_chunk(positions: Any, chunk: int, local: int) -> dict[str, Any]:
    """The positions of dual chunk attention, arXiv 2402.17463, as in vLLM for Qwen2.5-1M.

    Args:
        positions: the tokens' own positions p, integers from 0 on, of one or two dimensions.
        chunk: the number of tokens in a chunk.
        local: a smaller number, which makes n = chunk - local.

    Returns:
        A dict of arrays of the positions' shape. key: the position of a token's key, p % n. The positions of its query:
        same, p % n, for keys of the same chunk; before, min(p % n + n, chunk), for keys of the chunk before; far,
        min(2 n - 1, chunk), for keys of earlier chunks; before_critical and far_critical, the last two without the
        bound `chunk`, for the scores that select keys.
    """
    names = "key", "same", "before", "far", "before_critical", "far_critical"
    return dict(zip(names, _arrays("dual_chunk", positions=_memory.positions(positions), chunk=chunk, local=local)))


def self_extend(positions: Any, group: int, window: int) -> tuple[Any, Any]:
    """The positions of queries and of keys in Self-Extend, arXiv 2401.01325, for keys further away than window.

    They count groups of `group` tokens. positions: the tokens' own, integers from 0 on, of one or two dimensions; both
    results have their shape.
    """
    return _arrays("self_extend", positions=_memory.positions(positions), group=group, window=window)


def model(
    source: Source, ids: Any = None, *, mask: Any = None, image_grids: Any = None, video_grids: Any = None,
    seconds_per_grid: Any = None, audio_lengths: Any = None, part: str = "", publisher: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """The position ids that a model of transformers 5.24 computes from its processor's output.

    Args:
        source: the config, as in rotary.config.
        ids: token ids, [batch, tokens] or [tokens]. For a model that only counts tokens the mask is enough; a tower
            needs neither.
        mask: the attention mask, of the same shape; 0: masked.
        image_grids: time, height and width of each image in patches, [images, 3]: the processor's image_grid_thw.
        video_grids: the same for each video: video_grid_thw.
        seconds_per_grid: the seconds per time step of each video: second_per_grid_ts.
        audio_lengths: the length of each audio in mel frames.
        part: the dotted path of a sub-config, "vision_config", for the positions of that tower's patches.
        publisher: follow the model's publisher where transformers differs from it.

    Returns:
        A dict: positions, [batch, tokens], [axes, batch, tokens] or for a tower [axes, patches], for rotary.Table;
        deltas, [batch], added to the place of a token while decoding (None if the model has none); notes.

    Raises:
        rotary.Error: MODEL_TYPE (an unsupported model or part, or a config of diffusers, whose pipeline makes the
            coordinates), POSITION, SHAPE, DTYPE, CONFIG_VALUE, and what rotary.config raises.
    """
    given = {"ids": ids, "mask": mask, "image_grids": image_grids, "video_grids": video_grids}
    given |= {"seconds_per_grid": seconds_per_grid, "audio_lengths": audio_lengths}
    words = {name: None if value is None else _memory.positions(value) for name, value in given.items()}
    kind, config = _named(source)
    config = config.lstrip() if kind == "text" else config
    places, deltas, notes = _core._model_positions(config, words | {"part": part, "publisher": publisher})
    moves = None if deltas is None else _memory.view(*deltas)
    return {"positions": _memory.view(*places), "deltas": moves, "notes": json.loads(notes)}
