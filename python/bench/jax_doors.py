"""rotary.jax.rotate_qk beside the plain formula under jax.jit: microseconds and ratios, medians of alternating rounds.

python python/bench/jax_doors.py [ROUNDS]        q: 32 heads, k: 8 heads of 128, layout "bthd"

"kept": q and k are arguments that live on, so that the result needs memory of its own. "donated": they are given away
(donate_argnums), as a step of a loop or the middle of a model does.
"""

import functools
import statistics
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import rotary

WORDS = {"pairing": "half", "layout": "bthd"}


def formula(q, k, cos, sin):
    """As models in JAX have it: float32 arithmetic, one rounding."""
    c, s = (jnp.concatenate([v, v], -1)[:, None] for v in (cos, sin))

    def turned(x):
        wide = x.astype(jnp.float32)
        a, b = jnp.split(wide, 2, -1)
        return (wide * c + jnp.concatenate([-b, a], -1) * s).astype(x.dtype)

    return turned(q), turned(k)


def ours(q, k, cos, sin):
    return rotary.jax.rotate_qk(q, k, cos, sin, **WORDS)


def timed(step, given, donated, count):
    """Seconds a call."""
    q, k, cos, sin = given
    if donated:
        q, k = q + 0, k + 0
    jax.block_until_ready((q, k))
    start = time.perf_counter()
    for _ in range(count):
        made = jax.block_until_ready(step(q, k, cos, sin))
        if donated:
            q, k = made
    return (time.perf_counter() - start) / count


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"jax {jax.__version__}, rotary {rotary.__version__}, {rotary.chosen_target()}")
    for tokens in (1, 2048):
        cos, sin = rotary.jax.table(rotary.Rope(head_dim=128, pairing="half"), range(tokens))
        for dtype in (jnp.float32, jnp.bfloat16):
            random = np.random.default_rng(0)
            q, k = (jnp.asarray(random.standard_normal((1, tokens, h, 128)), dtype) for h in (32, 8))
            for donated in (False, True):
                jit = functools.partial(jax.jit, donate_argnums=(0, 1) if donated else ())
                steps = {"formula": jit(formula), "rotary": jit(ours)}
                count = 300 if tokens == 1 else 3
                seen = {name: [] for name in steps}
                for i in range(rounds + 1):
                    for name, step in steps.items():
                        seconds = timed(step, (q, k, cos, sin), donated, count)
                        if i > 0:  # the first compiles
                            seen[name].append(seconds * 1e6)
                plain, fast = (statistics.median(seen[name]) for name in ("formula", "rotary"))
                kind = "donated" if donated else "kept"
                print(
                    f"{tokens:5} tokens {np.dtype(dtype).name:9} {kind:8} formula {plain:9.1f} us  "
                    f"rotary {fast:9.1f} us  formula / rotary {plain / fast:5.2f}"
                )


if __name__ == "__main__":
    main()
