"""transformers, 4.36 and later: the model that AutoConfig makes of the config, and one forward call of it."""
from forward import Forward
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

AXES = 2


def rotate(folder, case, q, positions):
    config = AutoConfig.from_pretrained(folder)
    config = config.get_text_config() if hasattr(config, "get_text_config") else getattr(config, "text_config", config)
    config._attn_implementation, config.use_cache = "eager", False
    if not getattr(config, "layer_types", None):  # the layers behind the case's are not made
        config.num_hidden_layers = case["layer"] + 1
    maker = next(m for m in (AutoModel, AutoModelForCausalLM) if type(config) in m._model_mapping.keys())
    return Forward(case["layer"], case["length"] or int(positions.max()) + 1, q).call(maker, config, positions)
