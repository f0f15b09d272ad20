"""transformers, 4.36 and later: the model that AutoConfig makes of the config, and one forward call of it."""
import json
import pathlib

from forward import Forward
from harness import NotThere, main
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING


def rotate(folder, case, q, positions):
    said = json.loads((pathlib.Path(folder) / "config.json").read_text())
    types = [part["model_type"] for part in (said, *said.values()) if isinstance(part, dict) and "model_type" in part]
    if any(one not in CONFIG_MAPPING for one in types):
        raise NotThere("no such model_type")
    config = AutoConfig.from_pretrained(folder)
    config = config.get_text_config() if hasattr(config, "get_text_config") else getattr(config, "text_config", config)
    config._attn_implementation, config.use_cache = "eager", False
    if not getattr(config, "layer_types", None):  # the layers behind the case's are not made
        config.num_hidden_layers = case["layer"] + 1
    maker = next((m for m in (AutoModel, AutoModelForCausalLM) if type(config) in m._model_mapping.keys()), None)
    if not maker:
        raise NotThere("no text model of this config")
    return Forward(case["layer"], case["length"] or int(positions.max()) + 1, q).call(maker, config, positions)


if __name__ == "__main__":
    main(rotate, axes=2)
