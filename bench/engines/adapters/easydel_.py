"""EasyDeL on JAX's CPU: the model of the config (its weights stay unmade), its table and its attention's rotation."""
import easydel
import jax.numpy as jnp
import numpy as np
from easydel.infra.factory import registry
from flax import nnx
from harness import make_small, need, need_head, turn_reached


def rotate(folder, case, q, positions):
    make_small(folder, case["layer"])
    config = easydel.AutoEasyDeLConfig.from_pretrained(folder)
    kind = registry.get_module_registration(easydel.TaskType.CAUSAL_LM, config.model_type).module
    model = kind.lazy_init(config=config, dtype=jnp.float32, param_dtype=jnp.float32, precision=None,
                           rngs=nnx.Rngs(0)).model
    attention = model.layers[case["layer"]].self_attn
    need(not hasattr(model, "default_frequencies") and not hasattr(config, "kv_lora_rank"), "two tables, or MLA")
    need_head(attention.head_dim, q)

    def turn(q, positions):
        x = jnp.asarray(q)[None, :, None]
        return np.asarray(attention._apply_rotary(x, x, jnp.asarray(positions)[None], model.frequencies)[0])[0, :, 0]
    return turn_reached(turn, config.granted_freq_max_position_embedding, q, positions)
