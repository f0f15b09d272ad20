"""Positions of tokens by name, as in rotary/positions.h. Functions take arrays or lists of integers and return int64
arrays of numpy. Errors are rotary.Error with code POSITION, or SHAPE or DTYPE for an array."""

from __future__ import annotations

from typing import Any, Literal

from . import _core, _memory
from ._config import Source, _named
from ._values import loaded

Split = Literal["contiguous", "zigzag", "striped"]

__all__ = [
    *("Split", "dual_chunk", "held_tokens", "image", "mask", "model", "packed", "place_of_tokens", "self_extend"),
    "shard_tokens",
]


def packed(cu_seqlens: Any) -> Any:
    """Positions in a packed batch, [tokens]: each sequence counts from 0.

    Args:
        cu_seqlens: the bounds of the sequences: the first is 0, the last the number of tokens.
    """
    return _memory.view(*_core._positions("packed", {"cu_seqlens": _memory.positions(cu_seqlens)}))


def mask(mask: Any) -> Any:
    """Each visible token has the number of visible tokens before it in its row; masked tokens have 0.

    This is how generate() of transformers 5.23 counts, with padding on either side and in between.

    Args:
        mask: integers or bools, [tokens] or [batch, tokens]: 0 is padding.

    Returns:
        An array of the mask's shape.
    """
    return _memory.view(*_core._positions("mask", {"mask": _memory.positions(mask)}))


def image(rows: int, columns: int, *, merge: int = 1) -> Any:
    """Rows and columns of an image's patches, [2, rows * columns].

    Args:
        rows: of patches.
        columns: likewise.
        merge: 1: row by row; else in blocks of merge x merge patches, the order for models that merge patches.
    """
    return _memory.view(*_core._positions("image", {"rows": rows, "columns": columns, "merge": merge}))


def shard_tokens(split: Split, rank: int, ranks: int, cu_seqlens: Any) -> Any:
    """The tokens that context parallelism gives to a rank, in its order.

    Args:
        split: "contiguous" (Ring Attention), "zigzag" (Megatron-LM, ring-flash-attention) or "striped".
        rank: from 0.
        ranks: their number.
        cu_seqlens: as in packed; each sequence is split separately. [0, tokens] for one.
    """
    words = {"split": split, "rank": rank, "ranks": ranks, "cu_seqlens": _memory.positions(cu_seqlens)}
    return _memory.view(*_core._positions("shard_tokens", words))


def place_of_tokens(split: Split, ranks: int, cu_seqlens: Any) -> Any:
    """The inverse permutation: the place of each token in the concatenated shards of all ranks.

    gathered[place_of_tokens(...)] is in the order of the tokens again. Arguments as in shard_tokens.
    """
    words = {"split": split, "ranks": ranks, "cu_seqlens": _memory.positions(cu_seqlens)}
    return _memory.view(*_core._positions("place_of_tokens", words))


def held_tokens(window: int, sinks: int, token: int) -> tuple[Any, Any]:
    """The tokens in a sliding window with attention sinks once a token is stored (StreamingLLM, arXiv 2309.17453).

    Args:
        window: the number of tokens in the cache: the first ones and the newest.
        sinks: the number of the first ones.
        token: the newest, from 0.

    Returns:
        (tokens, positions), by slot of the cache. Tokens of the window keep slot and position; the sinks, stored at
        0, 1, ..., move to right before the others: rotary.between turns their keys.
    """
    tokens, positions = _core._positions("held_tokens", {"window": window, "sinks": sinks, "token": token})
    return _memory.view(*tokens), _memory.view(*positions)


def dual_chunk(positions: Any, chunk: int, local: int) -> dict[str, Any]:
    """The positions of dual chunk attention, arXiv 2402.17463, as in vLLM for Qwen2.5-1M.

    Args:
        positions: of the tokens, integers from 0 on, of one or two dimensions.
        chunk: tokens of a chunk.
        local: tokens of it that the previous chunk also sees, below chunk; n = chunk - local.

    Returns:
        A dict of arrays of the positions' shape: key; for queries same (both p % n), before (keys of the chunk before:
        min(p % n + n, chunk)) and far (keys of earlier chunks: min(2 n - 1, chunk)); before_critical and
        far_critical, without the bound, for the scores that select keys.
    """
    words = {"positions": _memory.positions(positions), "chunk": chunk, "local": local}
    names = "key", "same", "before", "far", "before_critical", "far_critical"
    return {name: _memory.view(*made) for name, made in zip(names, _core._positions("dual_chunk", words))}


def self_extend(positions: Any, group: int, window: int) -> tuple[Any, Any]:
    """(query, key) of Self-Extend, arXiv 2401.01325, for keys further away than window: in groups of group tokens.

    positions: of the tokens, integers from 0 on, of one or two dimensions; both results have their shape.
    """
    words = {"positions": _memory.positions(positions), "group": group, "window": window}
    query, key = _core._positions("self_extend", words)
    return _memory.view(*query), _memory.view(*key)


def model(
    source: Source,
    ids: Any = None,
    *,
    mask: Any = None,
    image_grids: Any = None,
    video_grids: Any = None,
    seconds_per_grid: Any = None,
    audio_lengths: Any = None,
    part: str = "",
    publisher: bool = False,
) -> dict[str, Any]:
    """The position ids that a model of transformers 5.23 computes from its processor's output.

    Args:
        source: as in rotary.config.
        ids: token ids, [batch, tokens] or [tokens]. If the model only counts tokens, the mask is enough; a tower needs
            neither.
        mask: the attention mask, of the same shape; 0: masked.
        image_grids: time, height and width of each image in patches, [images, 3]: the processor's image_grid_thw.
        video_grids: likewise for videos, video_grid_thw.
        seconds_per_grid: of each video, second_per_grid_ts.
        audio_lengths: of each audio, in mel frames.
        part: the dotted path of a sub-config, "vision_config": the positions of that tower's patches.
        publisher: where transformers and the model's publisher differ: as the publisher.

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
    told = None if deltas is None else _memory.view(*deltas)
    return {"positions": _memory.view(*places), "deltas": told, "notes": loaded(notes)}
