#!/usr/bin/env python3
"""Checks the token ids in "positions" of files/models/models.json, and writes tools/tests/golden/position_ids.json:
random small inputs for every model type with position ids of its own, and the ids that transformers computes from them.

    python files/models/sweep/position_ids.py           (needs torch and transformers)

What computes is always the model's own get_rope_index (NeoMME: its processor's _build_position_ids) and the
processor's create_mm_token_type_ids; what stands here is what a prompt looks like: text, runs of the tokens of a
picture or film with the marks around them, masked tokens anywhere.
"""
import importlib
import json
import random
from types import SimpleNamespace

import torch
from transformers import CONFIG_MAPPING, ProcessorMixin

import sweep  # noqa: F401: makes the others importable, and transformers silent
import table
from files import ROOT, write_rows
from run import CASES, classes, modules

PROMPTS = CASES["prompts"]
BY_FRAME, GLM, OMNI, TYPES = (PROMPTS[word] for word in ("by_frame", "glm", "omni", "types"))
WORDS = range(100, 140)
INPUTS = ("image_grids", "video_grids", "seconds", "audio_lengths")


class Prompt:
    """A row as it grows, and what the processor hands over beside it of all rows of a batch."""

    def __init__(self, rng, model_type, config):
        self.rng, self.model_type, self.config, self.ids = rng, model_type, config, []
        self.image_grids, self.video_grids, self.seconds, self.audio_lengths = [], [], [], []
        self.pictures, self.to_draw = rng.randint(0, 2), rng.randint(1, 2)  # every row of glm_image has them alike
        self.sounding = rng.random() < 0.5

    def words(self, least=1, most=6):
        self.ids += self.rng.choices(WORDS, k=self.rng.randint(least, most))

    def grid(self, side, most=4, frames=1):
        return [frames, side * self.rng.randint(1, most), side * self.rng.randint(1, most)]

    def image(self, side, most=4):
        self.image_grids.append(self.grid(side, most))
        return self.image_grids[-1]

    def film(self, side, frames):
        self.video_grids.append(self.grid(side, frames=frames))
        self.seconds.append(self.rng.choice([0.5, 1.0, 2.0, 0.7, 1.3, self.rng.random() * 3]))
        return self.video_grids[-1]


def image_or_film(row):
    """The pictures and films of most models."""
    config, vision, glm = row.config, row.config.vision_config, row.model_type in GLM
    side, time = vision.spatial_merge_size, 1
    film = row.model_type != "paddleocr_vl" and row.rng.random() < 0.5
    if glm or row.model_type == "ernie4_5_vl_moe":
        start, end = (config.video_start_token_id, config.video_end_token_id) if film else (101, 102)
        time = vision.temporal_merge_size if not glm and film else 1
    else:
        start, end = config.vision_start_token_id, config.vision_end_token_id
    frames, rows, columns = row.film(side, time * row.rng.randint(1, 4)) if film else row.image(side)
    token = config.video_token_id if film and not glm else config.image_token_id
    by_frame = film and row.model_type in BY_FRAME + GLM
    row.ids += [start]
    for _ in range(frames if by_frame else 1):
        if by_frame:
            row.words(1, 3)
        row.ids += [token] * (rows * columns // side**2 * (1 if by_frame else frames // time))
    row.ids += [end]


def closed_images(row):
    config = row.config
    for _ in range(row.pictures):
        row.words(0, 4)
        _, rows, columns = row.image(1)
        row.ids += [config.image_start_token_id, *[config.image_token_id] * (rows * columns), config.image_end_token_id]
    row.words(0, 4)
    row.ids += [config.image_start_token_id]
    for _ in range(row.to_draw):
        row.image(1)


def picture_with_newlines(row):
    """A row of patches ends in a newline; hunyuan_vl has marks around a picture, and often two tokens more."""
    config, side, marks = row.config, row.config.vision_config.spatial_merge_size, row.model_type == "hunyuan_vl"
    film = not marks and row.rng.random() < 0.5
    frames, rows, columns = row.film(side, row.rng.randint(1, 3)) if film else row.image(side)
    tokens = frames * (rows // side) * (columns // side + 1) + (row.rng.choice([0, 2]) if marks else 0)
    token = config.video_token_id if film else config.image_token_id
    row.ids += [config.im_start_id, *[token] * tokens, config.im_end_id] if marks else [101, *[token] * tokens, 102]


def canvas(row):
    """A thumbnail, and often slices of it in rows; or the frames of a clip."""
    config, side = row.config, 2 if row.config.downsample_mode == "4x" else 4
    film = row.rng.random() < 0.4
    grids, token = (row.video_grids, config.video_token_id) if film else (row.image_grids, config.image_token_id)

    def crop(start, end, grid):
        grids.append(grid)
        row.ids += [start, *[token] * (grid[1] * grid[2] // side**2), end]

    for frame in range(row.rng.randint(1, 3) if film else 1):
        if frame:
            row.ids += [config.newline_id] * row.rng.randint(0, 1)
        crop(config.image_start_id, config.image_end_id, row.grid(side, 5))
        if row.rng.random() < 0.6:
            rows, columns, grid = row.rng.randint(1, 3), row.rng.randint(1, 3), row.grid(side, 3)
            for slice_row in range(rows):
                row.ids += [config.newline_id] * (slice_row > 0)
                for _ in range(columns):
                    crop(config.slice_start_id, config.slice_end_id, list(grid))
    if row.rng.random() < 0.5:
        row.ids += [config.newline_id]


def page(row):
    _, rows, columns = row.image(1)
    row.ids += [row.config.document_token_id, row.config.image_token_id]
    row.ids += ([row.config.image_token_id] * columns + [99]) * rows


def audio_tokens(row, length):
    if row.model_type == "qwen2_5_omni":
        return ((length - 1) // 2 + 1 - 2) // 2 + 1
    module = importlib.import_module("transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe")
    return int(module._get_feat_extract_output_lengths(torch.tensor(length), row.config.audio_config.n_window))


def omni(row):
    config, rng, side = row.config, row.rng, row.config.vision_config.spatial_merge_size
    kind, seen = rng.choice(["image", "film", "sound"]), []
    if kind == "image":
        _, rows, columns = row.image(side)
        seen = [config.image_token_id] * (rows * columns // side**2)
    if kind == "film":
        frames, rows, columns = row.film(side, rng.randint(1, 5))
        seen = [config.video_token_id] * (frames * rows * columns // side**2)
    if kind == "sound" or kind == "film" and row.sounding:
        length = rng.randint(3, rng.choice([8, 40, 400]))
        row.audio_lengths.append(length)
        sound = [config.audio_token_id] * audio_tokens(row, length)
        mixed = seen[1:] + sound
        if seen:
            rng.shuffle(mixed)
        seen = [config.audio_start_token_id, *seen[:1], *mixed, 151648]
    row.ids += seen if kind == "sound" else [151652, *seen, 151653]


def options(rng, model_type):
    """The fields of this case's config.json beside its model_type."""
    config = {"model_type": model_type}
    if model_type == "minicpmv4_7":
        return config | PROMPTS["canvas_ids"] | rng.choice([{}, {"downsample_mode": "4x"}, {"downsample_mode": "16x"}])
    if model_type == "neomme":
        return config | rng.choice([{}, {"image_token_id": 7}])
    if model_type == "hunyuan_vl":
        rope = {"rope_theta": 10000.0, "rope_type": "default"}
        rope["mrope_section"] = rng.choice([[32, 16, 16], [16, 16, 16, 16]])
        return config | {"text_config": {"rope_parameters": rope}}
    if model_type in OMNI:
        thinker = {"vision_start_token_id": 151652}
        thinker |= rng.choice([{}, {"position_id_per_seconds": 13}, {"position_id_per_seconds": 2}])
        thinker |= rng.choice([{}, {"seconds_per_chunk": 1}, {"image_token_index": 77}]
                              if model_type == "qwen2_5_omni" else
                              [{}, {"audio_config": {"n_window": 13}}, {"image_token_id": 77}])
        return config | {"thinker_config": thinker}
    config |= rng.choice([{}, {}, {"image_token_id": 77}])
    if model_type != "glm_image":
        config |= rng.choice([{}, {}, {"vision_config": {"spatial_merge_size": rng.choice([1, 3])}}])
    for kind, word, values in (("qwen2_5_vl", "tokens_per_second", [2, 25]),
                               ("ernie4_5_vl_moe", "temporal_merge_size", [1, 3])):
        if model_type == kind:
            config |= rng.choice([{}, {"vision_config": {word: rng.choice(values)}}])
    return config


def config_of(whole):
    return getattr(whole, "thinker_config", whole)


def model_of(model_type, config):
    """The model's methods on an object that holds its config alone."""
    kinds = (kind for module in modules(config) for kind in classes(module) if "get_rope_index" in vars(kind))
    kind = min(kinds, key=lambda kind: kind.__name__)
    model = kind.__new__(kind)
    torch.nn.Module.__init__(model)
    model.config = config
    if model_type in OMNI:
        model.spatial_merge_size = config.vision_config.spatial_merge_size
    return model


def token_types(model_type, config, ids):
    if model_type in GLM:
        kind = importlib.import_module("transformers.models.glm4v.processing_glm4v").Glm4vProcessor
        processor = SimpleNamespace(image_token_id=config.image_token_id, video_start_id=config.video_start_token_id,
                                    video_end_id=config.video_end_token_id)
    else:
        kind, films = ProcessorMixin, [getattr(config, "video_token_id", None)]
        processor = SimpleNamespace(image_token_ids=[config.image_token_id], audio_token_ids=[None],
                                    video_token_ids=films)
    return torch.tensor(kind.create_mm_token_type_ids(processor, ids)).to(torch.int)


def grids(rows):
    return torch.tensor(rows) if rows else None


def computed(model_type, config, case, sounding):
    """[axes][batch][tokens] and, where the model has them, [batch]."""
    ids, mask = torch.tensor(case["ids"]), torch.tensor(case["mask"])
    images, videos = grids(case.get("image_grids")), grids(case.get("video_grids"))
    seconds = torch.tensor(case["seconds"], dtype=torch.float32) if "seconds" in case else None
    if model_type == "neomme":
        from transformers.models.neomme.processing_neomme import NeoMMEProcessor as Processor
        processor = SimpleNamespace(image_token_id=config.image_token_id, _image_positions=Processor._image_positions,
                                    tokenizer=SimpleNamespace(document_token_id=config.document_token_id,
                                                              row_token_id=99))
        return Processor._build_position_ids(processor, ids, mask, images[:, 1:]), None
    model = model_of(model_type, config)
    if model_type == "glm_image":
        per_row = torch.tensor([len(images) // len(ids)] * len(ids))
        return model.get_rope_index(ids, image_grid_thw=images, images_per_sample=per_row, attention_mask=mask)
    if model_type in OMNI:
        return model.get_rope_index(ids, images, videos, mask, sounding, grids(case.get("audio_lengths")), seconds)
    types = token_types(model_type, config, case["ids"])
    if model_type == "minicpmv4_7":
        cut = [None if given is None else given[:, 1:] for given in (images, videos)]
        return model.get_rope_index(ids, mm_token_type_ids=types, target_sizes=cut[0], target_sizes_videos=cut[1],
                                    attention_mask=mask)
    more = {"second_per_grid_ts": seconds} if model_type == "qwen2_5_vl" else {}
    return model.get_rope_index(ids, mm_token_type_ids=types, image_grid_thw=images, video_grid_thw=videos,
                                attention_mask=mask, **more)


def row_of(row):
    row.ids = []
    if row.model_type == "neomme":
        page(row) if row.rng.random() < 0.6 else row.words()
        return row.ids
    row.words()
    if row.model_type == "glm_image":
        closed_images(row)
        return row.ids
    add = {"hunyuan_vl": picture_with_newlines, "hy_v4_vl": picture_with_newlines, "minicpmv4_7": canvas}
    add = add.get(row.model_type, omni if row.model_type in OMNI else image_or_film)
    for _ in range(row.rng.randint(0, 3)):
        add(row)
        row.words(0, 4)
    return row.ids


def padded(rng, rows):
    """Rows of one length, and their mask: padded on a side of the batch, sometimes with masked tokens in between."""
    holes = rng.random() < 0.3
    shown = []
    for row in rows:
        marked = [(token, 1) for token in row]
        for _ in range(rng.randint(1, 3) if holes else 0):
            marked.insert(rng.randint(0, len(marked)), (rng.choice([*WORDS, *row]), 0))
        shown.append(marked)
    length = max(map(len, shown)) + rng.choice([0, 0, 2])
    left = rng.random() < 0.5
    for i, marked in enumerate(shown):
        fill = [(0, 0)] * (length - len(marked))
        shown[i] = fill + marked if left else marked + fill
    return [[token for token, _ in row] for row in shown], [[seen for _, seen in row] for row in shown]


def case_of(rng, model_type):
    while True:
        given = options(rng, model_type)
        config = config_of(CONFIG_MAPPING[model_type].from_dict(given))
        prompt = Prompt(rng, model_type, config)
        rows = [row_of(prompt) for _ in range(rng.randint(1, 3))]
        ids, mask = padded(rng, rows)
        case = {"config": given, "ids": ids, "mask": mask}
        case |= {name: getattr(prompt, name) for name in INPUTS if getattr(prompt, name)}
        if model_type not in OMNI and not ("image_grids" in case or "video_grids" in case):
            continue  # counted plainly, by generate()
        if len(ids) * len(ids[0]) > 70 or not sum(map(sum, mask)) or "video_grids" not in case and prompt.sounding:
            continue
        if model_type not in ["qwen2_5_vl", *OMNI]:
            case.pop("seconds", None)
        try:
            positions, deltas = computed(model_type, config, case, prompt.sounding)
        except (StopIteration, RuntimeError, TypeError):  # a masked mark made a film of a picture (the GLM models)
            continue
        case["positions"] = positions.tolist()
        return case if deltas is None else case | {"deltas": deltas.flatten().tolist()}


def check_rows():
    """Rows of files/models/models.json say the ids of their classes; of tokens that never occur they say nothing."""
    rows = table.read()["positions"]
    for model_type in TYPES:
        row = rows[model_type + "_thinker" * (model_type in OMNI)]
        config = config_of(CONFIG_MAPPING[model_type]())
        keys = PROMPTS["keys"] | dict(zip(("start", "end"), PROMPTS["marks"].get(model_type, ())))
        declared = {word: getattr(config, key) for word, key in keys.items() if word in row}
        assert declared == {word: row[word] for word in declared}, (model_type, row, declared)


if __name__ == "__main__":
    check_rows()
    rng, alike = random.Random(10), BY_FRAME[1:] + GLM[1:]  # they differ in their ids alone
    cases = [case_of(rng, model_type) for model_type in TYPES for _ in range(1 if model_type in alike else 3)]
    path = ROOT / "tools/tests/golden/position_ids.json"
    before = {json.dumps(case) for case in json.loads(path.read_text())}
    changed = {case["config"]["model_type"] for case in cases if json.dumps(case) not in before}
    print(f"position ids of prompts that differ: {' '.join(sorted(changed)) or 'none'}")
    write_rows(path, cases, separators=(",", ":"))
