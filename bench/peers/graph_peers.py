"""ONNX Runtime and OpenVINO: a graph of q and k, run on memory bound beforehand."""

import numpy as np

from cells import HEAD_DIM, HEADS, KV_HEADS, PAIRS, Cell, to_storage
from peer import Peer, Run, in_python


class OnnxRuntime(Peer):
    """RotaryEmbedding over [1, tokens, heads * head_dim] with IO binding."""

    package = "onnxruntime"
    domain, opset = "", 23

    def __init__(self):
        import onnx
        import onnxruntime

        self.onnx, self.runtime = onnx, onnxruntime

    def refuse(self, cell: Cell) -> str:
        return "has no bf16 kernel on the CPU" if cell.dtype == "bf16" else ""

    def inputs(self, x: str) -> list[str]:
        return [x, "cos", "sin", "positions"]

    def model(self, cell: Cell) -> bytes:
        make, kinds = self.onnx.helper, self.onnx.TensorProto
        kind = kinds.FLOAT if cell.dtype == "f32" else kinds.FLOAT16
        nodes, values = [], []
        for name, heads in (("q", HEADS), ("k", KV_HEADS)):
            shape = [1, cell.tokens, heads * HEAD_DIM]
            values.append([make.make_tensor_value_info(x, kind, shape) for x in (name, name + "_out")])
            nodes.append(make.make_node("RotaryEmbedding", self.inputs(name), [name + "_out"], domain=self.domain,
                                        num_heads=heads, interleaved=int(cell.interleaved)))  # fmt: skip
        tables = [make.make_tensor_value_info(x, kind, [cell.tokens, PAIRS]) for x in ("cos", "sin")]
        positions = make.make_tensor_value_info("positions", kinds.INT64, [1, cell.tokens])
        graph = make.make_graph(nodes, "rope", [values[0][0], values[1][0], *tables, positions],
                                [values[0][1], values[1][1]])  # fmt: skip
        imports = [make.make_opsetid("", 23)] + ([make.make_opsetid(self.domain, 1)] if self.domain else [])
        return make.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()

    def prepare(self, cell: Cell) -> Run:
        options = self.runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = cell.threads, 1
        session = self.runtime.InferenceSession(self.model(cell), options, providers=["CPUExecutionProvider"])
        kind = np.float32 if cell.dtype == "f32" else np.float16
        flat = {name: cell.source(name).reshape(1, cell.tokens, -1) for name in ("q", "k")}
        outs = {name + "_out": cell.work(name).reshape(x.shape) for name, x in flat.items()}
        # Row i of the tables is token i, whatever its position.
        given = {**flat, "cos": cell.cos.astype(kind), "sin": cell.sin.astype(kind),
                 "positions": np.arange(cell.tokens, dtype=np.int64)[None]}  # fmt: skip
        binding = session.io_binding()
        for name, x in given.items():
            binding.bind_input(name, "cpu", 0, x.dtype, x.shape, x.ctypes.data)
        for name, x in outs.items():
            binding.bind_output(name, "cpu", 0, x.dtype, x.shape, x.ctypes.data)
        return Run(in_python(lambda: session.run_with_iobinding(binding)),
                   lambda: tuple(x.reshape(cell.tokens, -1, HEAD_DIM) for x in outs.values()),
                   anew=cell.in_place, keeps=(given, outs))  # fmt: skip


class OnnxOpset23(OnnxRuntime):
    name = "ONNX Runtime opset 23"


class OnnxContrib(OnnxRuntime):
    name = "ONNX Runtime contrib"
    domain = "com.microsoft"

    def inputs(self, x: str) -> list[str]:
        return [x, "positions", "cos", "sin"]


class OpenVino(Peer):
    """half: the graph that its passes fuse into one RoPE operation, from [1, tokens, heads, head_dim] to the
    [1, heads, tokens, head_dim] of its attention. interleaved: they fuse none, the graph runs as it is."""

    name, package = "OpenVINO", "openvino"

    def __init__(self):
        import openvino
        from openvino import opset13

        self.openvino, self.ops, self.core = openvino, opset13, openvino.Core()

    def turned(self, x, heads: int, cell: Cell, kind):
        """(-second, first) of every pair; x: [1, heads, tokens, head_dim]."""
        ops, minus = self.ops, self.ops.constant(-1.0, dtype=kind)
        numbers = lambda *values: ops.constant(np.array(values, np.int64))  # noqa: E731
        if not cell.interleaved:
            part = lambda start, end: ops.slice(x, *map(numbers, (start, end, 1, -1)))  # noqa: E731
            return ops.concat([ops.multiply(part(PAIRS, HEAD_DIM), minus), part(0, PAIRS)], -1)
        split = ops.split(ops.reshape(x, numbers(1, heads, -1, PAIRS, 2), True), ops.constant(np.int64(-1)), 2)
        pairs = ops.concat([ops.multiply(split.output(1), minus), split.output(0)], -1)
        return ops.reshape(pairs, numbers(1, heads, -1, HEAD_DIM), True)

    def model(self, cell: Cell, kind):
        ops, swap = self.ops, self.ops.constant(np.array([0, 2, 1, 3], np.int64))
        cos, sin = (ops.parameter([1, 1, cell.tokens, HEAD_DIM], kind) for _ in range(2))
        xs, ys = [], []
        for heads in (HEADS, KV_HEADS):
            # The memory of one token is the same in both layouts.
            shape = [1, heads, 1, HEAD_DIM] if cell.tokens == 1 else [1, cell.tokens, heads, HEAD_DIM]
            xs.append(ops.parameter(shape, kind))
            x = xs[-1] if cell.tokens == 1 else ops.transpose(xs[-1], swap)
            ys.append(ops.add(ops.multiply(x, cos), ops.multiply(self.turned(x, heads, cell, kind), sin)))
        return self.openvino.Model([ops.result(y) for y in ys], [*xs, cos, sin])

    def prepare(self, cell: Cell) -> Run:
        kind = getattr(self.openvino.Type, cell.dtype)
        settings = {"INFERENCE_NUM_THREADS": cell.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                    "INFERENCE_PRECISION_HINT": "bf16" if cell.dtype == "bf16" else "f32"}  # fmt: skip
        compiled = self.core.compile_model(self.model(cell, kind), "CPU", settings)
        request = compiled.create_infer_request()
        given = [cell.source("q"), cell.source("k")]
        given += [to_storage(cell.doubled(values), cell.dtype) for values in (cell.cos, cell.sin)]
        outs = [cell.work(name).reshape(1, -1, cell.tokens, HEAD_DIM) for name in ("q", "k")]
        for i, x in enumerate(given):
            shape = list(compiled.input(i).shape)
            request.set_input_tensor(i, self.openvino.Tensor(x.reshape(shape), shape, kind))
        for i, x in enumerate(outs):
            request.set_output_tensor(i, self.openvino.Tensor(x, list(x.shape), kind))
        return Run(in_python(request.infer), lambda: tuple(x[0].transpose(1, 0, 2) for x in outs), anew=cell.in_place,
                   keeps=given)  # fmt: skip
