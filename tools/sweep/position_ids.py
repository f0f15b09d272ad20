#!/usr/bin/env python3
"""Checks the token ids in "positions" of data/models.json, and writes tests/golden/position_ids.json: random small
inputs of every model type that computes position ids of its own, and the ids that transformers computes of them.

    python tools/sweep/position_ids.py [FILE [CASES [SEED]]]           (needs torch and transformers)

What computes is always the model's own get_rope_index (NeoMME: its processor's _build_position_ids) and the
processor's create_mm_token_type_ids; what stands here is what a prompt looks like: text, runs of the tokens of a picture
or film with the marks around them, masked tokens anywhere.
"""
import importlib
import inspect
import json
import pathlib
import random
import sys
import warnings
from types import SimpleNamespace

import torch
import transformers
from transformers import CONFIG_MAPPING, ProcessorMixin

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
FILE = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "position_ids.json"

BY_FRAME = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp", "cosmos3_omni", "cosmos3_edge",
            "cohere_compass")
GLM = ("glm4v", "glm4v_moe", "glm46v", "glm_ocr", "glmga")
OMNI = ("qwen2_5_omni", "qwen3_omni_moe")
TYPES = ("qwen2_vl", "paddleocr_vl", "qwen2_5_vl", "ernie4_5_vl_moe", *BY_FRAME, *GLM, "glm_image", "hunyuan_vl",
         "minicpmv4_7", "neomme", *OMNI)
MODELED_AS = {"glmga": "glm46v"}  # modeling_auto.py
CANVAS_IDS = {"image_token_id": 50, "video_token_id": 51, "image_start_id": 52, "image_end_id": 53,
              "slice_start_id": 54, "slice_end_id": 55, "newline_id": 56}
WORDS = range(100, 140)


class Prompt:
    """A row as it grows, and what the processor hands over beside it of all rows of a batch."""

    def __init__(self, rng, config):
        self.rng, self.config, self.ids = rng, config, []
        self.image_grids, self.video_grids, self.seconds, self.audio_lengths = [], [], [], []
        self.pictures, self.to_draw = rng.randint(0, 2), rng.randint(1, 2)  # of glm_image, what every row has alike

    def words(self, least=1, most=6):
        self.ids += self.rng.choices(WORDS, k=self.rng.randint(least, most))

    def grid(self, side, most=4, frames=1):
        return [frames, side * self.rng.randint(1, most), side * self.rng.randint(1, most)]


def image_or_film(row, model_type):
    """The pictures and films of most models."""
    config, vision = row.config, row.config.vision_config
    side, time = vision.spatial_merge_size, 1
    film = model_type != "paddleocr_vl" and row.rng.random() < 0.5
    image = [config.image_token_id]
    if model_type in GLM or model_type == "ernie4_5_vl_moe":
        start, end = ([config.video_start_token_id], [config.video_end_token_id]) if film else ([101], [102])
        time = vision.temporal_merge_size if model_type not in GLM and film else 1
    else:
        start, end = [config.vision_start_token_id], [config.vision_end_token_id]
    grid = row.grid(side, frames=time * row.rng.randint(1, 4) if film else 1)
    tokens = grid[1] * grid[2] // side**2
    if film:
        row.video_grids.append(grid)
        row.seconds.append(row.rng.choice([0.5, 1.0, 2.0, 0.7, 1.3, row.rng.random() * 3]))
        image = image if model_type in GLM else [config.video_token_id]
        row.ids += start
        for _ in range(grid[0] if model_type in BY_FRAME + GLM else 1):
            if model_type in BY_FRAME + GLM:
                row.words(1, 3)
                row.ids += image * tokens
            else:
                row.ids += image * (tokens * grid[0] // time)
        row.ids += end
    else:
        row.image_grids.append(grid)
        row.ids += start + image * tokens + end


def closed_images(row):
    config = row.config
    for _ in range(row.pictures):
        row.words(0, 4)
        grid = row.grid(1)
        row.image_grids.append(grid)
        row.ids += [config.image_start_token_id, *[config.image_token_id] * (grid[1] * grid[2]),
                    config.image_end_token_id]
    row.words(0, 4)
    row.ids += [config.image_start_token_id]


def picture_with_newlines(row):
    side = row.config.vision_config.spatial_merge_size
    grid = row.grid(side)
    row.image_grids.append(grid)
    tokens = grid[1] // side * (grid[2] // side + 1) + row.rng.choice([0, 2])
    row.ids += [row.config.im_start_id] + [row.config.image_token_id] * tokens + [row.config.im_end_id]


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
    grid = row.grid(1)
    row.image_grids.append(grid)
    row.ids += [row.config.document_token_id, row.config.image_token_id]
    row.ids += ([row.config.image_token_id] * grid[2] + [99]) * grid[1]


def audio_tokens(model_type, length, config):
    if model_type == "qwen2_5_omni":
        return ((length - 1) // 2 + 1 - 2) // 2 + 1
    module = importlib.import_module("transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe")
    return int(module._get_feat_extract_output_lengths(torch.tensor(length), config.audio_config.n_window))


def omni(row, model_type, sounding):
    config, rng = row.config, row.rng
    side = config.vision_config.spatial_merge_size
    kind = rng.choice(["image", "film", "sound"])
    if kind == "image":
        grid = row.grid(side)
        row.image_grids.append(grid)
        row.ids += [151652] + [config.image_token_id] * (grid[1] * grid[2] // side**2) + [151653]
        return
    if kind == "film":
        grid = row.grid(side, frames=rng.randint(1, 5))
        row.video_grids.append(grid)
        row.seconds.append(rng.choice([0.5, 1.0, 2.0, 0.7, 1.3, rng.random() * 3]))
        film = [config.video_token_id] * (grid[0] * grid[1] * grid[2] // side**2)
    sound = []
    if kind == "sound" or sounding:
        length = rng.randint(3, rng.choice([8, 40, 400]))
        row.audio_lengths.append(length)
        sound = [config.audio_token_id] * audio_tokens(model_type, length, config)
    if kind == "sound":
        row.ids += [config.audio_start_token_id, *sound, 151648]
    elif sounding:
        mixed = film[1:] + sound
        rng.shuffle(mixed)
        row.ids += [151652, config.audio_start_token_id, film[0], *mixed, 151648, 151653]
    else:
        row.ids += [151652, *film, 151653]


def options(rng, model_type):
    """What this case's config.json says beside its model_type."""
    said = {"model_type": model_type}
    if model_type == "minicpmv4_7":
        return said | CANVAS_IDS | rng.choice([{}, {"downsample_mode": "4x"}, {"downsample_mode": "16x"}])
    if model_type == "neomme":
        return said | rng.choice([{}, {"image_token_id": 7}])
    if model_type == "hunyuan_vl":
        sections = rng.choice([[32, 16, 16], [16, 16, 16, 16]])
        return said | {"text_config": {"rope_parameters": {"rope_theta": 10000.0, "rope_type": "default",
                                                           "mrope_section": sections}}}
    if model_type in OMNI:
        thinker = {"vision_start_token_id": 151652}
        thinker |= rng.choice([{}, {"position_id_per_seconds": 13}, {"position_id_per_seconds": 2}])
        if model_type == "qwen2_5_omni":
            thinker |= rng.choice([{}, {"seconds_per_chunk": 1}, {"image_token_index": 77}])
        else:
            thinker |= rng.choice([{}, {"audio_config": {"n_window": 13}}, {"image_token_id": 77}])
        return said | {"thinker_config": thinker}
    said |= rng.choice([{}, {}, {"image_token_id": 77}])
    if model_type != "glm_image":
        said |= rng.choice([{}, {}, {"vision_config": {"spatial_merge_size": rng.choice([1, 3])}}])
    if model_type == "qwen2_5_vl":
        said |= rng.choice([{}, {"vision_config": {"tokens_per_second": rng.choice([2, 25])}}])
    if model_type == "ernie4_5_vl_moe":
        said |= rng.choice([{}, {"vision_config": {"temporal_merge_size": rng.choice([1, 3])}}])
    return said


def model_of(model_type, config):
    """The model's methods on an object that holds its config alone."""
    folder = MODELED_AS.get(model_type, model_type)
    module = importlib.import_module(f"transformers.models.{folder}.modeling_{folder}")
    kind = next(kind for _, kind in inspect.getmembers(module, inspect.isclass) if "get_rope_index" in vars(kind))
    model = kind.__new__(kind)
    torch.nn.Module.__init__(model)
    model.config = config
    if model_type in OMNI:
        model.spatial_merge_size = config.vision_config.spatial_merge_size
    return model


def token_types(model_type, config, ids):
    if model_type in GLM:
        module = importlib.import_module("transformers.models.glm4v.processing_glm4v")
        processor = SimpleNamespace(image_token_id=config.image_token_id, video_start_id=config.video_start_token_id,
                                    video_end_id=config.video_end_token_id)
        return torch.tensor(module.Glm4vProcessor.create_mm_token_type_ids(processor, ids))
    processor = SimpleNamespace(image_token_ids=[config.image_token_id], audio_token_ids=[None],
                                video_token_ids=[getattr(config, "video_token_id", None)])
    return torch.tensor(ProcessorMixin.create_mm_token_type_ids(processor, ids)).to(torch.int)


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


def row_of(row, model_type, sounding):
    row.ids, rng = [], row.rng
    if model_type == "neomme":
        page(row) if rng.random() < 0.6 else row.words()
        return row.ids
    row.words()
    if model_type == "glm_image":
        closed_images(row)
        for _ in range(row.to_draw):
            row.image_grids.append(row.grid(1))
        return row.ids
    for _ in range(rng.randint(0, 3)):
        if model_type == "hunyuan_vl":
            picture_with_newlines(row)
        elif model_type == "minicpmv4_7":
            canvas(row)
        elif model_type in OMNI:
            omni(row, model_type, sounding)
        else:
            image_or_film(row, model_type)
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


def case_of(rng, model_type, most=None):
    while True:
        said = options(rng, model_type)
        whole = CONFIG_MAPPING[model_type].from_dict(said)
        config = whole.thinker_config if model_type in OMNI else whole
        prompt, sounding = Prompt(rng, config), rng.random() < 0.5
        rows = [row_of(prompt, model_type, sounding) for _ in range(rng.randint(1, 3))]
        ids, mask = padded(rng, rows)
        case = {"config": said, "ids": ids, "mask": mask}
        names = ("image_grids", "video_grids", "seconds", "audio_lengths")
        case |= {name: getattr(prompt, name) for name in names if getattr(prompt, name)}
        if model_type not in OMNI and not ("image_grids" in case or "video_grids" in case):
            continue  # counted plainly, by generate()
        if most and len(ids) * len(ids[0]) > most:
            continue
        if not sum(map(sum, mask)) or "video_grids" not in case and sounding:
            continue
        if model_type not in ("qwen2_5_vl", *OMNI):
            case.pop("seconds", None)
        try:
            positions, deltas = computed(model_type, config, case, sounding)
        except (StopIteration, RuntimeError, TypeError):  # a masked mark made a film of a picture (the GLM models)
            continue
        case["positions"] = positions.tolist()
        if deltas is not None:
            case["deltas"] = deltas.flatten().tolist()
        return case


ROW_IDS = {"image": "image_token_id", "video": "video_token_id", "audio": "audio_token_id"}
MARKS = {"glm_image": ("image_start_token_id", "image_end_token_id"), "neomme": ("document_token_id",),
         **dict.fromkeys(GLM, ("video_start_token_id", "video_end_token_id")),
         **dict.fromkeys(OMNI, ("audio_start_token_id",))}


def check_rows():
    """Rows of data/models.json say the ids of their classes; of tokens that never occur they say nothing."""
    rows = json.loads((FILE.parents[2] / "data" / "models.json").read_text())["positions"]
    for model_type in TYPES:
        row = rows[model_type + "_thinker" * (model_type in OMNI)]
        config = CONFIG_MAPPING[model_type]()
        config = config.thinker_config if model_type in OMNI else config
        keys = ROW_IDS | dict(zip(("start", "end"), MARKS.get(model_type, ())))
        said = {word: getattr(config, key) for word, key in keys.items() if word in row}
        assert said == {word: row[word] for word in said}, (model_type, row, said)


def main(file=FILE, cases=3, seed=10):
    rng, cases = random.Random(int(seed)), int(cases)
    check_rows()
    alike = BY_FRAME[1:] + GLM[1:]  # they differ in their ids alone
    made = [case_of(rng, model_type, most=70) for model_type in TYPES for _ in range(1 if model_type in alike else cases)]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in made)
    pathlib.Path(file).write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
