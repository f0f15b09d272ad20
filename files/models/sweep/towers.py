"""The order in which vision towers place their patches: for positions.py.

A tower's own code runs on the meta device over two small grids; what its rotary module is handed, or what its function
of positions returns where it has no module that takes any, is compared with the orders of tools/positions/towers.cpp.
"""
import contextlib
import inspect
import itertools
from unittest import mock

import torch

import run

IMAGES, FILMS = [[1, 4, 6], [1, 2, 2]], [[2, 2, 4]]
SIDE = 4  # a fixed grid's
ON_CPU = {"inkling2_vision", "step3p5_vision"}  # their ids lie beside the pixels
INTERPOLATE = "get_vision_interpolation_indices_and_weights"  # for learned positions, which are added


class Stub(torch.nn.Module):
    """Instead of what a tower does before its patches turn."""

    def __init__(self, *shape):
        super().__init__()
        self.shape, self.patch_embedding, self.patch_size = shape, torch.nn.Linear(1, 1), 1
        self.weight = torch.nn.Parameter(torch.empty(1, device="meta"))

    def forward(self, *_, **__):
        return torch.empty(self.shape, device="meta")


def ordered(facts, merge=2, window=1, images=IMAGES, films=FILMS):
    """The axes of the patches in an order of towers.cpp, a tuple for each token. facts: fields of PositionFacts."""
    order, token, found = facts["order"], facts.get("class_token"), []
    for number, (frames, rows, columns) in enumerate(images + films):
        if "grid_of_blocks" in facts:
            rows, columns = rows * merge, columns * merge
        side = merge if order == "blocks" or (order == "film_blocks" and number >= len(images)) else 1
        places = sorted(itertools.product(range(rows), range(columns)),
                        key=lambda p: (p[0] // side, p[1] // side, p[0] % side, p[1] % side))
        first, axes = facts.get("first", 0), 2 + ("frame_axis" in facts)
        found += [(0,) * axes] * (token == "before")
        for t in range(frames):
            for row, column in places:
                if order == "centres":
                    row, column = 2 * (row + 0.5) / rows - 1, 2 * (column + 0.5) / columns - 1
                scale = window / columns if order == "windows" else 1
                found.append((t,) * ("frame_axis" in facts) + ((row + first) * scale, (column + first) * scale))
        found += [(0,) * axes] * (token == "after")
    return torch.tensor(found, dtype=torch.float32)


def run_tower(kind, config, caught):
    """The ids that the rotary module of a tower is handed which takes grids, or one image of 4 x 6 patches."""
    names, config = inspect.signature(kind.forward).parameters, run.runnable(config)
    given = next((name for name in names if "grid_thw" in name), None)
    grid = torch.tensor(IMAGES + FILMS) if given else torch.tensor([[1, 4, 6]])
    width, scale = getattr(config, "embed_dim", None) or config.hidden_size, 4 if given == "image_grid_thw" else 1
    patches = int(grid.prod(-1).sum()) * scale + len(grid) * (scale > 1)  # the grid of inkling2 counts blocks
    device = "cpu" if config.model_type in ON_CPU else "meta"
    with contextlib.ExitStack() as patches_of:
        patches_of.enter_context(mock.patch.object(torch, "arange", on_cpu(torch.arange)))
        for module in run.modules(config):
            if hasattr(module, INTERPOLATE) and device == "meta":
                patches_of.enter_context(mock.patch.object(module, INTERPOLATE, lambda *_, **__: interpolated))
        if device == "cpu":
            config.num_hidden_layers = 1
        with torch.device(device):
            model = kind(config).eval()
            stubs = {"pos": Stub(1, 1, width)}
            pixels = torch.empty((int(grid.prod(-1).sum()), width) if given else
                                 (1, 3, 4 * config.patch_size, 6 * config.patch_size))
            if scale > 1:
                side = config.patch_size * config.spatial_merge_size
                pixels = torch.empty(len(pixels), side, side, config.num_channels)
        for name, child in list(model.named_children()) if device == "meta" else []:
            turns = any(run.ROTARY.search(type(inner).__name__) for inner in child.modules())
            if not turns and not isinstance(child, torch.nn.ModuleList) and (given or "norm" not in name):
                shape = (patches, width) if given else (1, patches, width)
                setattr(model, name, stubs.get(name[:3]) or Stub(*shape))
        inputs = {given: grid, "merge_sizes": torch.tensor([1] * len(IMAGES) + [2] * len(FILMS)),
                  "hidden_states": pixels, "pixel_values": pixels}
        interpolated = (torch.empty(patches, 4, device="meta"), torch.empty(patches, 4, device="meta"))
        return caught(model, {name: value for name, value in inputs.items() if name in names})


def on_cpu(function):
    return lambda *args, **kwargs: function(*args, **kwargs | {"device": "cpu"})


# ---- towers without a module that is handed ids: what their functions make of a grid of 4 x 6, row before column ----


def centres(config):
    return run.modeling(config).get_patches_center_coordinates(4, 6, dtype=torch.float32, device="cpu")


def memory(prefix):
    def ids(config):
        config.memory_attention_rope_feat_sizes = [6, 4]  # width, height
        return getattr(run.modeling(config), prefix + "MemoryAttention").precompute_positions(config).flip(-1)
    return ids


def sam3(config):
    config.image_size, config.patch_size, config.window_size = (6 * 2, 4 * 2), 2, 3
    return run.modeling(config).Sam3ViTLayer.precompute_positions(config, 0).flip(-1)


def efficientloftr(config):
    return run.modeling(config).compute_embeddings(torch.ones(1), 4, 6, 4)[0].flatten(0, 1)


def llama4(config):
    """The angles of the first pair of each axis, whose speed is 1, column first; of a square."""
    config.image_size, config.patch_size = SIDE * 14, 14
    turns = run.modeling(config).Llama4VisionRotaryEmbedding._compute_freqs_ci(config).angle()[:, 0]
    return turns[:, [turns.shape[1] // 2, 0]].remainder(2 * torch.pi).round()


def vjepa2(config):
    config.crop_size = SIDE * config.patch_size
    attention = run.modeling(config).VJEPA2RopeAttention(config, config.hidden_size, config.num_attention_heads)
    return torch.stack(attention.get_position_ids(torch.empty(1, 2 * SIDE * SIDE, 1)), dim=-1)


def gemma4(config):
    """As image_processing_gemma4.py makes them, which needs torchvision to be imported: column, row."""
    return torch.stack(torch.meshgrid(torch.arange(6), torch.arange(4), indexing="xy"), dim=-1).reshape(-1, 2).flip(-1)


# model_type: its function, and its pictures where they are no rectangle
RECTANGLE = {"images": [[1, 4, 6]], "films": []}
OWN_SIZE = {"side": "image_size", "patch": "patch_size"}
FUNCTIONS = {
    "dinov3_vit": centres, "eomt_dinov3": centres, "sapiens2": centres, "edgetam_video": memory("EdgeTamVideo"),
    "sam2_video": memory("Sam2Video"), "sam3_tracker_video": memory("Sam3TrackerVideo"), "sam3_vit_model": sam3,
    "efficientloftr": efficientloftr, "llama4_vision_model": llama4, "vjepa2": vjepa2, "gemma4_vision": gemma4,
}
PICTURES = {"llama4_vision_model": {"images": [[1, SIDE, SIDE]], "films": []},
            "vjepa2": {"images": [], "films": [[2, SIDE, SIDE]]}}


def order_of(ids, pictures):
    """The order that makes these ids, row before column or column before row; and the ids, row first."""
    fits = [(order, turned) for order in run.CASES["orders"] for want in [ordered(order, window=3, **pictures)]
            for turned in (ids, ids.flip(-1)) if want.shape == ids.shape and torch.allclose(want, turned.float())]
    if not fits:
        raise ValueError(f"no order of towers.cpp makes these ids {tuple(ids.shape)}")
    return fits[0]


def default_of(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config[0] if isinstance(config, (list, tuple)) else config


def tower_facts(kind, config, caught):
    """The fields of a tower's row that follow from its code and its class; and a case for a test."""
    function, pictures = FUNCTIONS.get(config.model_type), PICTURES.get(config.model_type, RECTANGLE)
    place = run.CASES["places"].get(config.model_type, {"facts": {}, "keys": {}})
    keys = place["keys"]
    found = {f"{field}_key": key for field, key in keys.items() if field in ("side", "patch")}
    found |= {field: default_of(config, key) for field, key in keys.items()}
    if function:
        ids = function(config)
    else:
        ids = run_tower(kind, config, caught)
        ids = ids.reshape(-1, ids.shape[-1])
        pictures = RECTANGLE if len(ids) == 24 else {"images": IMAGES, "films": FILMS}
        if pictures is RECTANGLE and "image_sizes" not in inspect.signature(kind.forward).parameters:
            found |= {field: default_of(config, key) for field, key in OWN_SIZE.items()}
    order, ids = order_of(ids, pictures)
    found = order | place["facts"] | found
    if order["order"] in ("blocks", "film_blocks"):
        found["merge"] = getattr(config, "spatial_merge_size", 2)
    case = {"config": {"model_type": config.model_type} | {key: vars(config)[key] for key in keys.values()
                                                           if key in vars(config)}, **pictures,
            "positions": ids.T.tolist()}
    return {key: value for key, value in found.items() if value not in ("image_size", "patch_size")}, case
