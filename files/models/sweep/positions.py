"""How models make position ids: the sections "counted" and "positions" of files/models/models.json, for sweep.py.

    python files/models/sweep/positions.py [model_type ...]        (needs torch and transformers; default: all)

A chosen model_type: towers alone; words are counted in a run for all.

Text: the class that generates, or else the bare model, is made on the meta device and given a mask with paddings on
either side and holes, as generate() hands it on; what its first rotary module is handed says the rule. Where the meta
device cannot run a model so far, what generate() hands its forward says it. Towers: towers.py.
"""
import inspect
import sys

import torch
import transformers
from transformers import CONFIG_MAPPING, GenerationMixin

from sweep import default_config, first_words, has_rotary_code, name_of, parts  # makes the others importable
import adapters
import page
import run
import table
import towers
from files import ROOT, write_rows

MASK = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 1, 0, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]])
RULES = {"seen": (MASK.cumsum(-1) - 1).masked_fill(MASK == 0, 0),
         "from_one": (MASK.cumsum(-1)).masked_fill(MASK == 0, 1),
         "every": torch.arange(MASK.shape[1]).expand_as(MASK)}
TOWERS = sorted({*run.CASES["plane"], *towers.FUNCTIONS})


class Caught(Exception):
    """Carries the positions that the first rotary module got."""


def catching(module, args, kwargs):
    given = [kwargs.get("position_ids")] if "Attention" in type(module).__name__ else [*args, *kwargs.values()]
    for value in given:
        if torch.is_tensor(value) and not value.is_floating_point() and value.dtype != torch.bool:
            raise Caught(value)


def caught(model, inputs):
    """The ids that reach the first rotary module, or attention; None where neither is handed any."""
    for module in model.modules():
        if run.ROTARY.search(type(module).__name__) or "Attention" in type(module).__name__:
            module.register_forward_pre_hook(catching, with_kwargs=True)
    try:
        model(**inputs)
    except Caught as ids:
        return ids.args[0]
    return None


def inputs_of(model):
    """The arguments that generate() passes to the model, or a caller of forward() where the model does not generate."""
    ids, given = torch.ones_like(MASK), {"attention_mask": MASK}
    if not model.can_generate():
        return {"input_ids": ids.to("meta"), "attention_mask": MASK}
    if "position_ids" in inspect.signature(model.forward).parameters:
        given["position_ids"] = model._prepare_position_ids_for_generation(ids, given)
    inputs = model.prepare_inputs_for_generation(ids, is_first_iteration=True, use_cache=False, **given)
    inputs = {key: value for key, value in inputs.items() if value is not None}
    return inputs | ({"input_ids": inputs["input_ids"].to("meta")} if "input_ids" in inputs else {})


def rule_of(ids):
    """The rule that makes these ids; three equal axes are one."""
    if ids.dim() == 3 and torch.equal(ids, ids[:1].expand_as(ids)):
        ids = ids[0]
    fits = [name for name, want in RULES.items() if ids.dim() == 2 and torch.equal(ids.expand_as(MASK), want)]
    if not fits:
        raise ValueError(f"ids of another kind {tuple(ids.shape)}")
    return fits[0]


def counted(config, kind):
    """The rule of a model of words; None: it is not one, or could not be run."""
    inputs = {}
    with run.Watch(run.modules(*(part for _, part in parts(config) if part.model_type))) as watch:
        try:
            with torch.device("meta"):
                model = kind(run.runnable(config)).eval()
            run.patch(watch.undo, torch, "arange", towers.on_cpu(torch.arange))
            inputs = inputs_of(model)
            ids = caught(model, inputs)
            if ids is not None:
                return rule_of(ids)
        except Exception as error:
            print(f"{config.model_type}: not run: {type(error).__name__}: {first_words(error)}", file=sys.stderr)
    if "position_ids" in inputs:
        return rule_of(inputs["position_ids"])
    if config.model_type in run.CASES["count_inside"]:
        return "every"
    prepare = getattr(kind, "prepare_inputs_for_generation", None)
    plain = prepare is not None and (prepare is GenerationMixin.prepare_inputs_for_generation
                                     or "position_ids" not in inspect.getsource(prepare))
    return "seen" if plain and not inputs and "position_ids" in inspect.signature(kind.forward).parameters else None


# ---- model types ----


def has_rope(config):
    return any((name_of(part) in adapters.ADAPTERS or has_rotary_code(part))
               and name_of(part) not in adapters.NOT_ROTARY for _, part in parts(config))


def texts(own, failed):
    """{model_type: rule} of the models that count plainly; those of own make ids of their own. failed: gets others."""
    found, bare, within = {}, set(), set()
    for config in filter(None, map(default_config, sorted(CONFIG_MAPPING))):
        others = run.other_model(config, transformers.MODEL_FOR_CAUSAL_LM_MAPPING)
        kinds = run.model_classes(config) or others if has_rope(config) else []
        kinds.sort(key=lambda k: (not k.can_generate(), "Model" not in k.__name__, len(k.__name__)))
        model_type, generates = config.model_type, any(kind.can_generate() for kind in kinds)
        bare |= set() if generates else {model_type}
        within |= {part.model_type for path, part in parts(config) if path} if generates else set()
        takes = inspect.signature(kinds[0].forward).parameters if kinds else ()
        if "input_ids" not in takes or model_type in [*own, *TOWERS] or getattr(config, "is_encoder_decoder", False):
            continue
        try:
            rule = counted(config, kinds[0])
        except ValueError as error:
            failed[model_type] = str(error)
            continue
        if rule:
            found[model_type] = rule
    return {model_type: rule for model_type, rule in found.items() if model_type not in bare & within}


def rules_of(sheet):
    return {kind: rule for rule, kinds in sheet["counted"].items() for kind in kinds}


def main(names):
    sheet, failed, cases = table.read(), {}, {}
    before = rules_of(sheet) | sheet["positions"]
    if not names:
        rules = texts({kind for kind, row in sheet["positions"].items() if "variant" in row}, failed)
        sheet["counted"] = {rule: sorted(t for t, r in rules.items() if r == rule) for rule in RULES}
    for model_type in [t for t in TOWERS if not names or t in names]:
        config = CONFIG_MAPPING[model_type]()
        try:
            facts, case = towers.tower_facts(run.model_classes(config)[0], config, caught)
        except Exception as error:
            failed[model_type] = f"{type(error).__name__}: {first_words(error)}"
            continue
        sheet["positions"][model_type] = facts
        if "." not in facts.get("patch_key", ""):
            cases.setdefault(str({key: facts.get(key) for key in ("order", *page.PATCHES)}), case)
    for model_type, part in run.CASES["inside"].items():
        sheet["positions"].setdefault(model_type, {})["inside"] = part
    table.write(sheet)
    if not names:
        write_rows(ROOT / "tools/tests/golden/towers.json", cases.values())  # a case of each order
    after = rules_of(sheet) | sheet["positions"]
    if names:
        print("words were not counted: that needs a run for all model types", file=sys.stderr)
    changed = sorted(kind for kind in {**before, **after} if before.get(kind) != after.get(kind))
    print(f"position ids of another rule or order than before: {' '.join(changed) or 'none'}; "
          f"of none known: {failed or 'none'}")


if __name__ == "__main__":
    main(sys.argv[1:])
