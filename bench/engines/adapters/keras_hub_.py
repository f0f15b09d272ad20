"""keras-hub: the converter of the config's model_type, its backbone up to the case's layer, the attention's rope."""
import json
import os
import pathlib

os.environ |= {"KERAS_BACKEND": "torch", "CUDA_VISIBLE_DEVICES": ""}

import keras  # noqa: E402
import numpy as np  # noqa: E402
from harness import NotThere, OtherHead, main  # noqa: E402
from keras_hub.src.utils.transformers.preset_loader import TransformersPresetLoader  # noqa: E402

SMALL = {"vocabulary_size": 16, "intermediate_dim": 16, "moe_intermediate_dim": 16}  # turn nothing


def rotate(folder, case, q, positions):
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    try:
        converter = TransformersPresetLoader(folder, config).converter
    except ValueError:
        raise NotThere("no such model_type") from None
    made = converter.convert_backbone_config(config)
    if made.get("vision_encoder"):
        raise NotThere("text models alone")
    made |= {key: value for key, value in SMALL.items() if key in made} | {"num_layers": case["layer"] + 1}
    backbone = converter.backbone_cls(**made, dtype="float32")
    layer = next(x for x in backbone.layers if x.name.endswith((f"layer_{case['layer']}", f"block_{case['layer']}")))
    turns, around = (next((x for x in layer._flatten_layers() if word in type(x).__name__), None)
                     for word in ("RotaryEmbedding", "Attention"))
    if turns is None:
        raise NotThere("no rotary layer")
    turns = getattr(around, "_apply_rope", turns)
    size = getattr(around, "head_dim", None) or getattr(around, "_head_dim", q.shape[1])
    if size != q.shape[1]:
        raise OtherHead(size)
    rows = [turns(keras.ops.convert_to_tensor(x[None, None, None]), start_index=int(p)) for x, p in zip(q, positions)]
    if isinstance(rows[0], tuple):
        raise NotThere("its rotary layer gives cos and sin, and the attention rotates")
    return np.concatenate([keras.ops.convert_to_numpy(row)[0, 0] for row in rows])


if __name__ == "__main__":
    main(rotate)
