"""Array libraries and graphs: numpy, numba, JAX, MLX, ONNX Runtime, OpenVINO. Each is imported where it is called."""

from functools import cache, partial
from time import perf_counter

import numpy as np

from cells import BASE, HEAD_DIM, HEADS, KV_HEADS, PAIRS, Cell, to_storage
from peer import Run, Unavailable, in_python


def refuse(wrong: bool, reason: str) -> None:
    if wrong:
        raise Unavailable(reason)


def numpy_out(cell: Cell) -> Run:
    """Every ufunc with out=, so that nothing is allocated."""
    refuse(cell.dtype == "bf16", "has no bf16")
    refuse(cell.threads > 1, "one thread only")
    kind = np.float32 if cell.dtype == "f32" else np.float16
    cos, sin = (table.astype(kind)[:, None] for table in (cell.cos, cell.sin))
    q, k, q_out, k_out = cell.tensors()
    steps = [(*cell.members(x[0]), *cell.members(out[0]), *(np.empty((*x.shape[1:-1], PAIRS), kind) for _ in range(2)))
             for x, out in ((q, q_out), (k, k_out))]  # fmt: skip

    def call():
        for first, second, out_first, out_second, one, two in steps:
            np.multiply(first, sin, out=one)
            np.multiply(second, sin, out=two)
            np.multiply(first, cos, out=out_first)
            np.multiply(second, cos, out=out_second)
            np.subtract(out_first, two, out=out_first)
            np.add(out_second, one, out=out_second)

    return Run(in_python(call), lambda: (q_out[0], k_out[0]))


# ---- numba -----------------------------------------------------------------------------------------


@cache
def numba_conversions():
    """bf16's bits to float32, and back."""
    from numba import njit
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def bits_of(context, value):
        return types.uint32(types.float32), lambda c, b, s, a: b.bitcast(a[0], c.get_value_type(types.uint32))

    @intrinsic
    def float_of(context, value):
        return types.float32(types.uint32), lambda c, b, s, a: b.bitcast(a[0], c.get_value_type(types.float32))

    @njit(inline="always")
    def widen(x):
        return float_of(np.uint32(np.uint32(x) << np.uint32(16)))

    @njit(inline="always")
    def narrow(x):
        bits = bits_of(x)
        even = (bits >> np.uint32(16)) & np.uint32(1)
        return np.uint16(np.uint32(bits + np.uint32(0x7FFF) + even) >> np.uint32(16))

    return widen, narrow


@cache
def numba_loops(bf16: bool, interleaved: bool, in_place: bool, parallel: bool):
    """rotate(repetitions, q, k, q_out, k_out, cos, sin) for one storage type, pairing and way of writing."""
    from numba import njit, prange

    same = njit(inline="always")(lambda x: x)
    widen, narrow = numba_conversions() if bf16 else (same, same)
    step = 2 if interleaved else 1
    options = {"fastmath": True, "error_model": "numpy", "boundscheck": False}

    @njit(**options)
    def turn(x, out, cos, sin):
        pairs = x.shape[1] // 2
        partner = 1 if interleaved else pairs
        for head in range(x.shape[0]):
            given = x[head]
            written = given if in_place else out[head]  # known to be one array: the compiler vectorises
            for i in range(pairs):
                a, b = widen(given[step * i]), widen(given[step * i + partner])
                written[step * i] = narrow(a * cos[i] - b * sin[i])
                written[step * i + partner] = narrow(b * cos[i] + a * sin[i])

    @njit(parallel=parallel, **options)
    def rotate(repetitions, q, k, q_out, k_out, cos, sin):
        for _ in range(repetitions):
            for token in prange(q.shape[0]):
                turn(q[token], q_out[token], cos[token], sin[token])
                turn(k[token], k_out[token], cos[token], sin[token])

    return rotate


def numba_loop(cell: Cell) -> Run:
    """The plain loop in Python, compiled; repeated inside, without dispatch."""
    import numba

    refuse(cell.dtype == "f16", "has no f16 on the CPU")
    numba.set_num_threads(cell.threads)
    rotate = numba_loops(cell.dtype == "bf16", cell.interleaved, cell.in_place, cell.threads > 1)
    flat = [x[0] for x in cell.tensors()]
    rotate(0, *flat, cell.cos, cell.sin)  # compiles

    def repeat(repetitions: int) -> float:
        start = perf_counter()
        rotate(repetitions, *flat, cell.cos, cell.sin)
        return perf_counter() - start

    return Run(repeat, lambda: (flat[2], flat[3]))


# ---- JAX and MLX -----------------------------------------------------------------------------------


def jax_jit(cell: Cell) -> Run:
    """The formula in float32 through jit, q and k in one program; in place: the arguments are donated."""
    import jax
    import jax.numpy as jnp
    import ml_dtypes

    jax.config.update("jax_cpu_enable_async_dispatch", False)

    def turn(x, cos, sin):
        first, second = cell.members(x.astype(jnp.float32))
        turned = first * cos - second * sin, second * cos + first * sin
        out = jnp.stack(turned, axis=-1).reshape(x.shape) if cell.interleaved else jnp.concatenate(turned, axis=-1)
        return out.astype(x.dtype)

    def both(q, k, cos, sin):
        return turn(q, cos, sin), turn(k, cos, sin)

    compiled = jax.jit(both, donate_argnums=(0, 1) if cell.in_place else ())
    tables = [jnp.asarray(values[None, :, None]) for values in (cell.cos, cell.sin)]
    sources = [cell.source(name) for name in ("q", "k")]
    given = [jnp.array(x.view(ml_dtypes.bfloat16) if x.dtype == np.uint16 else x) for x in sources]  # copies: a donated one is written
    outs = list(given)

    def call():
        outs[:] = compiled(*(outs if cell.in_place else given), *tables)
        jax.block_until_ready(outs)

    return Run(in_python(call), lambda: tuple(np.asarray(x)[0].view(s.dtype) for x, s in zip(outs, sources)))


def mlx_fast_rope(cell: Cell) -> Run:
    """mx.fast.rope on [batch, heads, tokens, head_dim], the layout that it takes; sin and cos are its own."""
    import mlx.core as mx

    refuse(cell.threads > 1, "one thread only")
    mx.set_default_device(mx.cpu)
    kind = {"f32": mx.float32, "bf16": mx.bfloat16, "f16": mx.float16}[cell.dtype]
    xs = [mx.array(np.ascontiguousarray(cell.source(name).transpose(0, 2, 1, 3))).view(kind) for name in ("q", "k")]
    outs, offset = [None, None], int(cell.positions[0])
    mx.eval(xs)

    def call():
        for i, x in enumerate(xs):
            outs[i] = mx.fast.rope(x, HEAD_DIM, traditional=cell.interleaved, base=BASE, scale=1.0, offset=offset)
        mx.eval(outs)

    bits = mx.uint16 if cell.dtype == "bf16" else kind
    return Run(in_python(call), lambda: tuple(np.array(x.view(bits))[0].transpose(1, 0, 2) for x in outs), anew=cell.in_place)


# ---- ONNX Runtime ----------------------------------------------------------------------------------


def onnx_model(cell: Cell, domain: str, order: list[str]) -> bytes:
    """One RotaryEmbedding for q and one for k, which take x and the others in this order."""
    from onnx import TensorProto, helper

    kind = TensorProto.FLOAT if cell.dtype == "f32" else TensorProto.FLOAT16
    value = helper.make_tensor_value_info
    nodes, inputs, outputs = [], [], []
    for name, heads in (("q", HEADS), ("k", KV_HEADS)):
        inputs.append(value(name, kind, [1, cell.tokens, heads * HEAD_DIM]))
        outputs.append(value(name + "_out", kind, [1, cell.tokens, heads * HEAD_DIM]))
        nodes.append(helper.make_node("RotaryEmbedding", [name, *order], [name + "_out"], domain=domain, num_heads=heads,
                                      interleaved=int(cell.interleaved)))  # fmt: skip
    inputs += [value(name, kind, [cell.tokens, PAIRS]) for name in ("cos", "sin")]
    inputs.append(value("positions", TensorProto.INT64, [1, cell.tokens]))
    imports = [helper.make_opsetid("", 23)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    graph = helper.make_graph(nodes, "rope", inputs, outputs)
    return helper.make_model(graph, opset_imports=imports, ir_version=10).SerializeToString()


def onnx_runtime(cell: Cell, domain: str, order: list[str]) -> Run:
    """[1, tokens, heads * head_dim] with IO binding."""
    import onnxruntime

    refuse(cell.dtype == "bf16", "has no bf16 kernel on the CPU")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = cell.threads, 1
    session = onnxruntime.InferenceSession(onnx_model(cell, domain, order), options, providers=["CPUExecutionProvider"])
    kind = np.float32 if cell.dtype == "f32" else np.float16
    flat = {name: cell.source(name).reshape(1, cell.tokens, -1) for name in ("q", "k")}
    outs = {name + "_out": cell.work(name).reshape(x.shape) for name, x in flat.items()}
    # Row i of the tables is token i, whatever its position.
    given = {**flat, "cos": cell.cos.astype(kind), "sin": cell.sin.astype(kind),
             "positions": np.arange(cell.tokens, dtype=np.int64)[None]}  # fmt: skip
    binding = session.io_binding()
    for bind, arrays in ((binding.bind_input, given), (binding.bind_output, outs)):
        for name, x in arrays.items():
            bind(name, "cpu", 0, x.dtype, x.shape, x.ctypes.data)
    return Run(in_python(lambda: session.run_with_iobinding(binding)),
               lambda: tuple(x.reshape(cell.tokens, -1, HEAD_DIM) for x in outs.values()),
               anew=cell.in_place, keeps=(given, outs))  # fmt: skip


onnx_opset23 = partial(onnx_runtime, domain="", order=["cos", "sin", "positions"])
onnx_contrib = partial(onnx_runtime, domain="com.microsoft", order=["positions", "cos", "sin"])


# ---- OpenVINO --------------------------------------------------------------------------------------


def turned(x, heads: int, interleaved: bool, kind):
    """(-second, first) of every pair; x: [1, heads, tokens, head_dim]."""
    from openvino import opset13 as ops

    minus = ops.constant(-1.0, dtype=kind)
    numbers = lambda *values: ops.constant(np.array(values, np.int64))  # noqa: E731
    if not interleaved:
        part = lambda start, end: ops.slice(x, *map(numbers, (start, end, 1, -1)))  # noqa: E731
        return ops.concat([ops.multiply(part(PAIRS, HEAD_DIM), minus), part(0, PAIRS)], -1)
    split = ops.split(ops.reshape(x, numbers(1, heads, -1, PAIRS, 2), True), ops.constant(np.int64(-1)), 2)
    pairs = ops.concat([ops.multiply(split.output(1), minus), split.output(0)], -1)
    return ops.reshape(pairs, numbers(1, heads, -1, HEAD_DIM), True)


def openvino_graph(cell: Cell) -> Run:
    """half: the graph that its passes fuse into one RoPE operation, from [1, tokens, heads, head_dim] to the
    [1, heads, tokens, head_dim] of its attention. interleaved: they fuse none, the graph runs as it is."""
    import openvino
    from openvino import opset13 as ops

    kind, swap = getattr(openvino.Type, cell.dtype), ops.constant(np.array([0, 2, 1, 3], np.int64))
    cos, sin = (ops.parameter([1, 1, cell.tokens, HEAD_DIM], kind) for _ in range(2))
    xs, ys = [], []
    for heads in (HEADS, KV_HEADS):
        # The memory of one token is the same in both layouts.
        xs.append(ops.parameter([1, heads, 1, HEAD_DIM] if cell.tokens == 1 else [1, cell.tokens, heads, HEAD_DIM], kind))
        x = xs[-1] if cell.tokens == 1 else ops.transpose(xs[-1], swap)
        ys.append(ops.add(ops.multiply(x, cos), ops.multiply(turned(x, heads, cell.interleaved, kind), sin)))
    model = openvino.Model([ops.result(y) for y in ys], [*xs, cos, sin])
    settings = {"INFERENCE_NUM_THREADS": cell.threads, "NUM_STREAMS": 1, "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_PRECISION_HINT": "bf16" if cell.dtype == "bf16" else "f32"}  # fmt: skip
    compiled = openvino.Core().compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    given = [cell.source("q"), cell.source("k"), *(to_storage(cell.doubled(values), cell.dtype) for values in (cell.cos, cell.sin))]
    outs = [cell.work(name).reshape(1, -1, cell.tokens, HEAD_DIM) for name in ("q", "k")]
    for i, x in enumerate(given):
        shape = list(compiled.input(i).shape)
        request.set_input_tensor(i, openvino.Tensor(x.reshape(shape), shape, kind))
    for i, x in enumerate(outs):
        request.set_output_tensor(i, openvino.Tensor(x, list(x.shape), kind))
    return Run(in_python(request.infer), lambda: tuple(x[0].transpose(1, 0, 2) for x in outs), anew=cell.in_place, keeps=given)
