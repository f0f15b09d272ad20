"""JAX and MLX."""

import numpy as np

from cells import BASE, HEAD_DIM, Cell
from peer import Peer, Run, in_python


class Jax(Peer):
    """The formula in float32 through jit, q and k in one program; in place: the arguments are donated."""

    name, package = "JAX jit", "jax"

    def __init__(self):
        import jax
        import ml_dtypes

        jax.config.update("jax_cpu_enable_async_dispatch", False)
        self.jax, self.bfloat16 = jax, ml_dtypes.bfloat16

    def prepare(self, cell: Cell) -> Run:
        jax, jnp = self.jax, self.jax.numpy

        def turn(x, cos, sin):
            wide = x.astype(jnp.float32)
            first, second = cell.members(wide)
            turned = first * cos - second * sin, second * cos + first * sin
            out = jnp.stack(turned, axis=-1).reshape(x.shape) if cell.interleaved else jnp.concatenate(turned, axis=-1)
            return out.astype(x.dtype)

        def both(q, k, cos, sin):
            return turn(q, cos, sin), turn(k, cos, sin)

        compiled = jax.jit(both, donate_argnums=(0, 1) if cell.in_place else ())
        tables = [jnp.asarray(values[None, :, None]) for values in (cell.cos, cell.sin)]
        sources = [cell.source(name) for name in ("q", "k")]
        views = [x.view(self.bfloat16) if x.dtype == np.uint16 else x for x in sources]
        given = [jnp.array(x) for x in views]  # copies: a donated one is written
        outs = list(given)

        def call():
            outs[:] = compiled(*(outs if cell.in_place else given), *tables)
            jax.block_until_ready(outs)

        return Run(in_python(call), lambda: tuple(np.asarray(x)[0].view(s.dtype) for x, s in zip(outs, sources)))


class Mlx(Peer):
    """mx.fast.rope on [batch, heads, tokens, head_dim], the layout that it takes; sin and cos are its own."""

    name, package, own_angles = "MLX fast.rope", "mlx", True

    def __init__(self):
        import mlx.core as mx

        mx.set_default_device(mx.cpu)
        self.mx = mx

    def refuse(self, cell: Cell) -> str:
        return "one thread only" if cell.threads > 1 else ""

    def prepare(self, cell: Cell) -> Run:
        mx, kind = self.mx, {"f32": self.mx.float32, "bf16": self.mx.bfloat16, "f16": self.mx.float16}[cell.dtype]
        sources = [np.ascontiguousarray(cell.source(name).transpose(0, 2, 1, 3)) for name in ("q", "k")]
        xs = [mx.array(x).view(kind) for x in sources]
        outs, offset = [None, None], int(cell.positions[0])
        mx.eval(xs)

        def call():
            for i, x in enumerate(xs):
                outs[i] = mx.fast.rope(x, HEAD_DIM, traditional=cell.interleaved, base=BASE, scale=1.0, offset=offset)
            mx.eval(outs)

        def result():
            bits = mx.uint16 if cell.dtype == "bf16" else kind
            return tuple(np.array(x.view(bits))[0].transpose(1, 0, 2) for x in outs)

        return Run(in_python(call), result, anew=cell.in_place)
