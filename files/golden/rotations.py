"""Finds what a rotary module does by rotating vectors with it: nothing here knows any model.

A rope is given as a callable turn(x, position): x is float32 [rows, size], the rows are heads of one token that stands
at `position` (a list, one number per axis; axis 0 is the row, or the time where there are three), the result is the
same rows after the model's own cos, sin and apply function. Turning the identity gives the matrix M[input, output],
and the matrix says which elements form a pair, in which direction, by which angle and by which coordinate.
"""
import torch

POSITION = [29, 11, 5, 3]  # where "vector" is turned, as many of them as there are axes


def pair_maps(n):
    """The inputs (u, v) of each of n pairs and the outputs that they reach."""
    i = torch.arange(n)
    return {"half": (i, i + n, i, i + n), "interleaved": (2 * i, 2 * i + 1, 2 * i, 2 * i + 1),
            "interleaved_to_half": (2 * i, 2 * i + 1, i, i + n)}


def explain(matrix, pairing, n, first=0):
    """(cos, sin) of the pairs if `pairing` of n pairs from `first` explains the matrix, all of it; else None."""
    u, v, out_u, out_v = (k + first for k in pair_maps(n)[pairing])
    cos, sin = matrix[u, out_u], matrix[u, out_v]
    explained = torch.eye(len(matrix), dtype=matrix.dtype)
    explained[first:first + 2 * n, first:first + 2 * n] = 0
    explained[u, out_u], explained[u, out_v], explained[v, out_u], explained[v, out_v] = cos, sin, -sin, cos
    return (cos, sin) if torch.allclose(explained, matrix, rtol=1e-6, atol=0) else None


def as_rotation(matrix, width=None):
    """(pairing, first, n, cos, sin) of the smallest block that explains the matrix: M[input, output], double.

    width: that of the block, where pairs at its end stand still and the matrix alone cannot tell.
    """
    size = len(matrix)
    moved = (matrix - torch.eye(size, dtype=matrix.dtype)).abs().amax(dim=1).nonzero().flatten().tolist()
    if not moved:
        raise ValueError("nothing turns")
    sizes = [width // 2] if width else range(1, size // 2 + 1)
    for n in sizes:
        for first in sorted({0, size - 2 * n, min(moved), min(moved) - min(moved) % 2}):
            if first < 0 or first + 2 * n > size or moved[0] < first or moved[-1] >= first + 2 * n:
                continue
            for pairing in pair_maps(n):
                found = explain(matrix, pairing, n, first)
                if found:
                    return pairing, first, n, *found
    raise ValueError("no pairing explains the rotation")


def as_rotations(matrix, width=None, blocks=None):
    """The same for a head that is cut into equal blocks, each a rope: [(pairing, first, n), ...]."""
    for count in [blocks] if blocks else [1, 2, 3, 4]:
        size, found = len(matrix) // count, []
        try:
            for low in range(0, size * count, size):
                pairing, first, n, _, _ = as_rotation(matrix[low:low + size, low:low + size], width)
                found.append((pairing, low + first, n))
        except ValueError:
            continue
        rest = matrix.clone()
        for low in range(0, size * count, size):
            rest[low:low + size, low:low + size] = torch.eye(size, dtype=matrix.dtype)
        if torch.equal(rest, torch.eye(len(matrix), dtype=matrix.dtype)):
            return found
    raise ValueError("no pairing explains the rotation")


def digits(x):
    """A float32, as the shortest decimal that says it: nine significant digits."""
    return float(f"{float(x):.9g}")


def nearest(value, choices):
    """The module's own number behind one that was measured (0 stands for itself)."""
    if choices is None or value == 0:
        return value
    best = min((float(c) for c in choices), key=lambda c: abs(c - value))
    if abs(best - value) > 4e-6 * abs(value):
        raise ValueError(f"a pair turns by {value}, the nearest inv_freq of the module is {best}")
    return best


def fit(matrix_at, axes=1, *, buffer=None, amplitude=None, width=None, blocks=None, step=1):
    """The ropes of one head, by first: first, rotary_dim, pairing, clockwise, axis, attention_factor, inv_freq.

    matrix_at(position) is M[input, output] of one token, in double. buffer: the module's inv_freq, any shape, to take
    the exact float32 values from; amplitude: its attention_scaling; step: the position to look at, small enough that
    no pair turns by more than half a turn (or the position as a coordinate, where the model scales them).
    """
    def at(axis):
        return matrix_at([step if axis in (k, None) else step * 0 for k in range(axes)])

    buffer = None if buffer is None else torch.as_tensor(buffer).abs().flatten().double().tolist()
    per_axis = [at(axis) for axis in range(axes)]
    found = []
    for pairing, first, n in as_rotations(per_axis[0] if axes == 1 else at(None), width, blocks):
        u, _, out_u, out_v = (k + first for k in pair_maps(n)[pairing])
        cos, sin = (torch.stack([m[u, out] for m in per_axis]) for out in (out_u, out_v))
        angle, scale = torch.atan2(sin, cos) / step, torch.hypot(cos, sin)
        if not torch.allclose(scale, scale[:1, :1], rtol=2e-6):
            raise ValueError("the amplitude differs by pair")
        if ((angle != 0).sum(0) > 1).any():
            raise ValueError("a pair listens to two axes")
        speed, axis = angle.sum(0), (angle != 0).int().argmax(0).tolist()
        for i in [i for i in range(n) if speed[i] == 0]:  # a pair that stands still listens to its neighbour's axis
            axis[i] = axis[i - 1] if i else 0
        if (speed < 0).any() and (speed > 0).any():
            raise ValueError("pairs turn in both directions")
        factor = float(f"{float(scale.mean()):.7g}")
        found.append({
            "first": first, "rotary_dim": 2 * n, "pairing": pairing, "clockwise": bool((speed < 0).any()),
            "axis": "".join(map(str, axis)),
            "attention_factor": factor if amplitude is None else nearest(factor, [amplitude]),
            "inv_freq": [digits(nearest(abs(float(w)), buffer)) for w in speed]})
    return found


def probe(width):
    """The input of "vector": x[d] = ((d * 37) % 64 - 32) / 16, exact in every float type."""
    return ((torch.arange(width) * 37) % 64 - 32).float() / 16


def ropes(turn, size, axes=1, *, position=None, offset=0, **how):
    """fit() of turn(x, position), with "position" and the rotated "vector" of every block.

    size: elements that turn() expects. offset: where they begin in the head (an MLA's rope part). how: as for fit().
    """
    def matrix_at(where):
        return turn(torch.eye(size), where).reshape(size, size).double()

    position = position or POSITION[:axes]
    found = fit(matrix_at, axes, **how)
    for rope in found:
        first, width = rope["first"], rope["rotary_dim"]
        x = torch.zeros(1, size)
        x[0, first:first + width] = probe(width)
        out = turn(x, position).reshape(size)[first:first + width]
        rope |= {"first": first + offset, "position": position, "vector": [digits(v) for v in out]}
    return found


def record(name, rope, *, layers, layers_without_rope=(), heads, kv_heads=None, head_dim):
    """One entry of "ropes" (without "part") from one of ropes(), in the order that the files have."""
    keys = ("first", "rotary_dim", "pairing", "clockwise", "axis", "attention_factor", "inv_freq", "position", "vector")
    out = {"class": name, "layers": list(layers), "layers_without_rope": list(layers_without_rope), "heads": heads,
           "kv_heads": heads if kv_heads is None else kv_heads, "head_dim": head_dim}
    return out | {key: rope[key] for key in keys} | {"length": None}
