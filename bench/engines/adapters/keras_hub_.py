"""keras-hub: the converter of the config's model_type, its backbone up to the case's layer, the attention's rope."""
import json
import pathlib

import keras
import numpy as np
from harness import need, need_head
from keras_hub.src.utils.transformers.preset_loader import TransformersPresetLoader

SMALL = {"vocabulary_size": 16, "intermediate_dim": 16, "moe_intermediate_dim": 16}  # turn nothing


def rotate(folder, case, q, positions):
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    converter = TransformersPresetLoader(folder, config).converter
    made = converter.convert_backbone_config(config)
    need(not made.get("vision_encoder"), "text models alone")
    made |= {key: value for key, value in SMALL.items() if key in made} | {"num_layers": case["layer"] + 1}
    backbone = converter.backbone_cls(**made, dtype="float32")
    layer = next(x for x in backbone.layers if x.name.endswith((f"layer_{case['layer']}", f"block_{case['layer']}")))
    turns, around = (next((x for x in layer._flatten_layers() if word in type(x).__name__), None)
                     for word in ("RotaryEmbedding", "Attention"))
    need(turns, "no rotary layer")
    turns = getattr(around, "_apply_rope", turns)
    need_head(getattr(around, "head_dim", None) or getattr(around, "_head_dim", q.shape[1]), q)
    rows = [turns(keras.ops.convert_to_tensor(x[None, None, None]), start_index=int(p)) for x, p in zip(q, positions)]
    need(not isinstance(rows[0], tuple), "its rotary layer gives cos and sin, and the attention rotates")
    return np.concatenate([keras.ops.convert_to_numpy(row)[0, 0] for row in rows])
