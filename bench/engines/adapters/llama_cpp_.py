"""llama.cpp: the rope node of the case's layer in its graph of the converted config, which is given the case's q."""
import pathlib
import re

import numpy as np
from gguf_model import convert, decode, ffi
from harness import need, need_head

ENDS = True


def rotate(folder, case, q, positions):
    path, order = convert(pathlib.Path(folder), case["layer"])
    order, out, widths = order[:q.shape[1]], q.copy(), set()

    def see(node, asked):
        x = node.src[0] if asked else node
        width, tokens = x.ne[0], x.ne[2]
        if not re.fullmatch(rf"(?i)q.*-{case['layer']}( .*)?", ffi.string(node.name).decode()):
            return
        widths.add(width)
        if width > q.shape[1]:
            return
        at = np.frombuffer(ffi.buffer(node.src[1].data, 4 * tokens), np.int32)
        rows = [int(np.flatnonzero(positions == p)[0]) for p in at]
        memory = np.frombuffer(ffi.buffer(x.data, (tokens - 1) * x.nb[2] + 4 * width), np.uint8)
        head = np.ndarray((tokens, width), np.float32, memory, strides=(x.nb[2], 4))
        if asked:
            head[:] = q[rows][:, order[-width:]]
        else:
            out[np.ix_(rows, order[-width:])] = head

    decode(path, case["length"], positions, see)
    need(widths, "no rope node of the layer's queries")
    need_head(max(*widths, q.shape[1]), q)  # a block is at most the head
    return out
