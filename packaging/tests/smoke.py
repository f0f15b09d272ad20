"""Uses a released Python package beside numpy, which has the formula: smoke.py SOURCE_DIR"""

import json
import pathlib
import re
import sys

import numpy as np
import rotary

source = pathlib.Path(sys.argv[1])
version = re.search(r'#define ROTARY_VERSION "(.*)"', (source / "core/include/rotary/version.h").read_text())[1]
assert rotary.__version__ == version, f"__version__ must be {version} but is {rotary.__version__}"
beside = pathlib.Path(rotary.__file__).with_name("models.json")
sheet = json.loads(beside.read_bytes())
assert sheet == json.loads((source / "files/models/models.json").read_bytes()), f"{beside} must be the source's"
assert rotary.use_models(None) == sheet["data"], "the sheet of models in use must be the one beside the package"

heads, d, tokens = 4, 128, 300
[rope] = rotary.config({"model_type": "llama", "hidden_size": heads * d, "num_attention_heads": heads,
                        "num_hidden_layers": 2, "rope_theta": 500000.0})
assert rope.layers == (0, 1)
before = np.random.default_rng(1).standard_normal((1, tokens, heads, d), np.float32)
after = rotary.rotate(before, rotary.Table(rope, range(tokens)), layout="bthd")
angles = np.arange(tokens)[:, None] * 500000.0 ** (-np.arange(0, d, 2) / d)
cos, sin = (of(angles).astype(np.float32)[None, :, None] for of in (np.cos, np.sin))
a, b = before[..., :d // 2], before[..., d // 2:]
assert np.array_equal(after, np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)), "not the formula's bits"
assert rotary.check(rope, before, after)["equal"]
assert not rotary.check(rope, before, before)["equal"]
print(f"rotary {version}: the package finds its sheet of models and rotates as the formula does, bit for bit")
