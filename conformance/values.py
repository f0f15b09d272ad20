"""The reader of values.safetensors, with numpy alone."""
import json

import numpy as np


def read_values(path):
    """The tensors by name, float32."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:end])
    return {name: np.frombuffer(data[end + t["data_offsets"][0]:end + t["data_offsets"][1]], "<f4").reshape(t["shape"])
            for name, t in head.items() if name != "__metadata__"}
