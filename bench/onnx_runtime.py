"""ONNX Runtime: a graph of two RotaryEmbedding."""

import numpy as np

from cells import HEAD_DIM, HEADS, KV_HEADS, PAIRS, Cell
from peer import Run, Unavailable, in_python


def onnx_model(cell: Cell) -> bytes:
    """One RotaryEmbedding of com.microsoft for q and one for k."""
    from onnx import TensorProto, helper

    kind = TensorProto.FLOAT if cell.dtype == "f32" else TensorProto.FLOAT16
    value = helper.make_tensor_value_info
    nodes, inputs, outputs = [], [], []
    for name, heads in (("q", HEADS), ("k", KV_HEADS)):
        inputs.append(value(name, kind, [1, cell.tokens, heads * HEAD_DIM]))
        outputs.append(value(name + "_out", kind, [1, cell.tokens, heads * HEAD_DIM]))
        nodes.append(helper.make_node("RotaryEmbedding", [name, "positions", "cos", "sin"], [name + "_out"],
                                      domain="com.microsoft", num_heads=heads,
                                      interleaved=int(cell.interleaved)))  # fmt: skip
    inputs += [value(name, kind, [cell.tokens, PAIRS]) for name in ("cos", "sin")]
    inputs.append(value("positions", TensorProto.INT64, [1, cell.tokens]))
    imports = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "rope", inputs, outputs)
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def prepare(cell: Cell) -> Run:
    """[1, tokens, heads * head_dim] with IO binding."""
    import onnxruntime

    if cell.dtype == "bf16":
        raise Unavailable("has no bf16 kernel on the CPU")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_model(cell), options, providers=["CPUExecutionProvider"])
    kind = np.float32 if cell.dtype == "f32" else np.float16
    flat = {name: cell.source(name).reshape(1, cell.tokens, -1) for name in ("q", "k")}
    outs = {name + "_out": cell.work(name).reshape(x.shape) for name, x in flat.items()}
    # Row i of the tables is token i, whatever its position.
    cos, sin = (values.astype(kind) for values in cell.table)
    given = {**flat, "cos": cos, "sin": sin, "positions": np.arange(cell.tokens, dtype=np.int64)[None]}
    binding = session.io_binding()
    for bind, arrays in ((binding.bind_input, given), (binding.bind_output, outs)):
        for name, x in arrays.items():
            bind(name, "cpu", 0, x.dtype, x.shape, x.ctypes.data)
    return Run(in_python(lambda: session.run_with_iobinding(binding)),
               lambda: tuple(x.reshape(cell.tokens, -1, HEAD_DIM) for x in outs.values()),
               anew=cell.in_place, keeps=(given, outs))  # fmt: skip
