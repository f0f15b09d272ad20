"""Pictures of ropes, drawn by matplotlib: functions that return a Figure, and a command.

    rotary.tools.plot.save(rotary.tools.plot.wavelengths("Llama-3.1-8B/", "Qwen3-8B/"), "wavelengths.svg")
    python -m rotary.tools.plot wavelengths Llama-3.1-8B/ Qwen3-8B/ --output wavelengths.svg

A source is anything that rotary.config reads, a rotary.Rope, or an entry of rotary.config. rope is the number of a
model's rope; None draws each that rotates by the places of tokens. length is the length of the sequence, for scalings
that depend on it; None: the context. Errors are those of rotary.config, VALUE (a number out of range) and ROPE (no such
rope); without matplotlib the import of this module is an ImportError.
"""

import argparse
import contextlib
import inspect
import io
import os
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from .. import Error, Rope, Table, config, frequencies, rotate, tools
from .._words import fail
from ..scalings import Unscaled
from . import ModelRope

try:
    import matplotlib
    import numpy as np
    from matplotlib.figure import Figure
except ImportError as error:
    sentence = f"[plot] pictures need matplotlib (pip install matplotlib) but {error}"
    raise (SystemExit(f"error: {sentence}") if __name__ == "__main__" else ImportError(sentence)) from error

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # Okabe's and Ito's


class _Drawn(NamedTuple):
    name: str
    entry: ModelRope
    length: int | None

    def table(self, positions: Any, rope: Rope | None = None) -> Table:
        """The table of rope, else of the entry's rope, at positions [axes, tokens], or [tokens] for every axis."""
        axes = self.entry._axes
        every = np.tile(positions, (axes, 1)) if axes > 1 and np.ndim(positions) == 1 else positions
        return Table(rope or self.entry.rope, every, self.length)

    def wavelengths(self, scaled: bool = True) -> Any:
        """The tokens that each pair of each head and axis needs for one turn; NaN for a pair that does not rotate."""
        rope = self.entry.rope if scaled else self.entry.rope.replace(scaling=Unscaled())
        speeds = np.abs(np.ravel(frequencies(rope, self.length).inv_freq))
        with np.errstate(divide="ignore", over="ignore"):
            return np.where(speeds > 0, 2 * np.pi / speeds, np.nan)


def _read(source: Any) -> tuple[str, Sequence[ModelRope]]:
    """A short name for the source, and its ropes."""
    if isinstance(source, ModelRope):
        return _read(source.rope)[0], [source]
    if isinstance(source, Rope):
        entry = ModelRope(rope=source, part="", layers=(), layers_without_rope=(), heads=1, kv_heads=1, first=0,
                          context=0, notes=(), _origins=(), axis_names=(), coordinates=False)  # fmt: skip
        return f"base {source.base:g}" if source.scaling.name == "default" else source.scaling.name, [entry]
    model = config(source)
    if not isinstance(source, (str, os.PathLike)) or str(source).lstrip().startswith("{"):
        return model.model_type or "config", model
    path = Path(source).absolute()
    word = path.parent.name if path.name in ("config.json", "params.json") else path.name
    return word.removesuffix(".json").removesuffix(".gguf"), model


def _chosen(sources: Sequence[Any], rope: int | None, length: int | None) -> list[_Drawn]:
    chosen = []
    for source in sources:
        name, entries = _read(source)
        if not 0 <= (rope or 0) < len(entries):
            fail("ROPE", "plot", f"rope must be below the {len(entries)} ropes of {name} but got {rope or 0}")
        of_text = [i for i, entry in enumerate(entries) if not entry.coordinates] or [0]
        for i in of_text if rope is None else [rope]:
            label = name + (f", rope {i}" if len(entries) > 1 else "")
            chosen.append(_Drawn(label, entries[i], length or entries[i].context or None))
    return chosen


def _figure(title: str, x: str, y: str, width: float = 8, **scales: str) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, 4.8), layout="constrained")
    axes = figure.add_subplot(xlabel=x, ylabel=y, **scales)
    axes.set_title(title, loc="left", fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _with_legend(figure: Figure) -> Figure:
    figure.axes[0].grid(color="0.9")
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure


def wavelengths(*sources: Any, rope: int | None = None, length: int | None = None) -> Figure:
    """The tokens that each pair needs for one turn, 2 pi / |inv_freq|, with the context and the trained length."""
    figure, axes = _figure("Wavelength of each pair", "pair", "tokens for one turn", yscale="log")
    for colour, one in zip(cycle(_COLOURS), _chosen(sources, rope, length)):
        axes.plot(one.wavelengths(), color=colour, linewidth=2, label=one.name)
        scaling = one.entry.scaling
        if scaling.name != "default":
            axes.plot(one.wavelengths(scaled=False), "--", color=colour, linewidth=1, label=f"without {scaling.name}")
        trained, context = getattr(scaling, "trained_length", 0), one.entry.context
        for word, tokens, style in ("trained length", trained, "-."), ("context", context, ":"):
            if tokens:
                axes.axhline(tokens, color=colour, linestyle=style, linewidth=1, label=f"{word} {tokens}")
    return _with_legend(figure)


def stretch(*sources: Any, rope: int | None = None, length: int | None = None) -> Figure:
    """The stretch of each pair's wavelength by the scaling: scaled / unscaled."""
    figure, axes = _figure("Stretch of each pair's wavelength", "pair", "scaled / unscaled wavelength")
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}")
    for colour, one in zip(cycle(_COLOURS), _chosen(sources, rope, length)):
        axes.plot(one.wavelengths() / one.wavelengths(scaled=False), color=colour, linewidth=2, label=one.name)
    return _with_legend(figure)


def table(source: Any, *, positions: range = range(128), sin: bool = False, rope: int = 0) -> Figure:
    """The cos or the sin of a rotary.Table as a heat map: positions to the right, the pairs of all heads downwards."""
    (one,) = _chosen([source], rope, None)
    if not positions:
        fail("VALUE", "plot", f"positions must be at least one but got {positions}")
    rows, half = one.table(np.array(positions)), positions.step / 2
    values = np.asarray(rows.sin if sin else rows.cos).reshape(len(positions), -1).T
    figure, axes = _figure(f"Table of {one.name}", "position", "pair")
    edges, limit = (positions[0] - half, positions[-1] + half, len(values) - 0.5, -0.5), abs(values).max()
    image = axes.imshow(values, "PuOr", vmin=-limit, vmax=limit, extent=edges, aspect="auto", interpolation="none")
    figure.colorbar(image, label="sin" if sin else "cos")
    return figure


def _scores(one: _Drawn, positions: Any) -> Any:
    """The mean over heads of q.k, with q at these positions, k at 0, and both the unit vector of equal elements.

    It equals the mean of q.k over all unit vectors q = k.
    """
    rope = one.entry.rope
    keys = rope.replace(xpos=rope.xpos.replace(reciprocal=True)) if rope.xpos.scale > 0 else rope
    vectors = np.full((positions.shape[-1], rope.head_rows, rope.head_dim), rope.head_dim**-0.5, np.float32)
    q = rotate(vectors, one.table(positions), layout="thd", first=one.entry.first)
    k = rotate(vectors[:1], one.table(0 * positions[..., :1], keys), layout="thd", first=one.entry.first)
    return np.einsum("thd,hd->t", q, k[0]) / rope.head_rows


def decay(*sources: Any, last: int | None = None, rope: int | None = None, length: int | None = None) -> Figure:
    """The mean score of unit vectors q = k at distances from 1 to last; None: the longest context, else 4096.

    The axis has 80 steps. The line is the mean over the distances in a step, the shade their range.
    """
    figure, axes = _figure("Mean score of q = k by distance", "distance (tokens)", "q.k of unit vectors", xscale="log")
    chosen = _chosen(sources, rope, length)
    last = last or max(one.entry.context for one in chosen) or 4096
    if last < 1:
        fail("VALUE", "plot", f"last must be at least 1 but got {last}")
    begins = np.unique(np.geomspace(1, last + 1, 81).astype(np.int64))[:-1]
    for colour, one in zip(cycle(_COLOURS), chosen):
        parts = [np.arange(begin, min(begin + 65536, last + 1)) for begin in range(1, last + 1, 65536)]
        scores = np.concatenate([_scores(one, part) for part in parts])
        least, most, sums = (f.reduceat(scores, begins - 1) for f in (np.minimum, np.maximum, np.add))
        axes.fill_between(begins, least, most, color=colour, alpha=0.25, linewidth=0)
        axes.plot(begins, sums / np.diff(begins, append=last + 1), color=colour, label=one.name)
    return _with_legend(figure)


def patches(source: Any, *, reach: int = 32, rope: int = 0) -> Figure:
    """The mean score of two patches q = k by the rows and columns between them, up to reach.

    The axes are those named height and width, else the last two. Raises ROPE for a rope of one axis.
    """
    (one,) = _chosen([source], rope, None)
    if one.entry._axes < 2:
        fail("ROPE", "plot", f"patches must have two axes, for rows and columns, but {one.name} has one axis")
    names, apart = list(one.entry.axis_names), np.arange(-reach, reach + 1)
    down, across = (names.index(name) if name in names else i for name, i in (("height", -2), ("width", -1)))
    places = np.zeros((one.entry._axes, len(apart), len(apart)))
    places[down], places[across] = apart[:, None], apart
    scores = _scores(one, places.reshape(len(places), -1)).reshape(places.shape[1:])
    figure, axes = _figure(f"Two patches: {one.name}", "columns apart", "rows apart", 5.5)
    image = axes.imshow(scores, "viridis", extent=(reach + 0.5) * np.array([-1, 1, 1, -1]), interpolation="none")
    figure.colorbar(image, label="q.k of unit vectors")
    return figure


def accuracy(*sources: Any, rope: int | None = None, length: int | None = None) -> Figure:
    """The largest error of cos and sin in each decade of positions; for several ropes float32's."""
    figure, axes = _figure("Largest error of cos and sin", "position", "absolute error", xscale="log", yscale="log")
    chosen, colours = _chosen(sources, rope, length), cycle(_COLOURS)
    for one in chosen:
        study = tools.accuracy(one.entry, length=one.length)
        ends = [decade["last"] for decade in study["decades"]]
        for way in study["ways"]:
            if len(chosen) == 1 or way["way"] == "float32 product":
                axes.plot(ends, way["cos_sin"], "o-", color=next(colours), label=f"{one.name}, {way['way']}")
    return _with_legend(figure)


def save(figure: Figure, output: str | os.PathLike[str]) -> None:
    """Writes the picture to a .svg or .png, whole or not at all. The bytes are always the same. Raises FORMAT, FILE."""
    path = Path(output)
    ending, partial = path.suffix.lower(), path.with_name(f"{path.name}.partial-{os.getpid()}")
    if ending not in (".svg", ".png"):
        fail("FORMAT", "plot", f"output must end in .svg or .png but got '{path}'")
    picture = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "rotary", "svg.fonttype": "none"}):
        figure.savefig(picture, format=ending[1:], dpi=150, metadata={"Date": None, "Creator": "rotary.tools.plot"})
    try:
        with partial.open("wb") as file:
            file.write(picture.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        fail("FILE", "plot", f"output must be a file that can be written but got '{path}': {error.strerror}")
    finally:
        with contextlib.suppress(OSError):  # it has gone, unless something failed
            partial.unlink()


def main() -> None:
    """Runs the command. It exits with 1 after "error: CODE: sentence" on standard error, with 2 on wrong usage."""
    kinds = {draw.__name__: draw for draw in (wavelengths, stretch, table, decay, patches, accuracy)}
    parser = argparse.ArgumentParser(prog="python -m rotary.tools.plot", argument_default=argparse.SUPPRESS)
    parser.add_argument("kind", metavar="KIND", choices=kinds, help=", ".join(kinds))
    parser.add_argument("sources", metavar="CONFIG", nargs="+", help="as of rotary.config")
    parser.add_argument("--output", required=True, metavar="FILE", help="the picture to write, .svg or .png")
    parser.add_argument("--rope", type=int, metavar="N", help="which rope of a model, from 0")
    parser.add_argument("--length", type=int, metavar="N", help="tokens in play, for scalings that depend on it")
    given = vars(parser.parse_args())
    draw, sources, output = kinds[given.pop("kind")], given.pop("sources"), given.pop("output")
    try:
        inspect.signature(draw).bind(*sources, **given)
    except TypeError as error:
        parser.error(f"{draw.__name__}: {error}")
    try:
        save(draw(*sources, **given), output)
    except Error as error:
        parser.exit(1, f"error: {error.code}: {error}\n")


if __name__ == "__main__":
    main()
