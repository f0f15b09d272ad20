"""How models make position ids: the sections "counted" and "positions" of data/models.json, for sweep.py.

    python tools/sweep/positions.py [model_type ...]        (needs torch and transformers; default: all)

Text: a model of every class that generates, or else of the bare model, is made on the meta device. It is given a mask
with paddings on either side and holes, as generate() gives it; what its first rotary module is handed says the rule.
"""
import inspect
import sys
import warnings

import torch
import transformers
from transformers import CONFIG_MAPPING, PreTrainedConfig, PreTrainedModel

import run
import table
from text import MUST_SAY

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
torch.set_num_threads(1)



def parts(config):
    """The config and all configs inside it."""
    return [config] + [p for v in vars(config).values() if isinstance(v, PreTrainedConfig) for p in parts(v)]


MASK = torch.tensor([[0, 0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 1, 0, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]])
SEEN = (MASK.cumsum(-1) - 1).masked_fill(MASK == 0, 0)
RULES = {"seen": SEEN, "from_one": (MASK.cumsum(-1)).masked_fill(MASK == 0, 1),
         "every": torch.arange(MASK.shape[1]).expand_as(MASK)}


class Caught(Exception):
    """What the first rotary module was handed."""


def integers(values):
    return [v for v in values if torch.is_tensor(v) and not v.is_floating_point() and v.dtype != torch.bool]


def catching(module, args, kwargs):
    found = integers([kwargs.get("position_ids")] if "Attention" in type(module).__name__ else [*args, *kwargs.values()])
    if found:
        raise Caught(found[0])


def caught(model, inputs):
    """The ids that reach the first rotary module; None where no module is asked with ids."""
    for module in model.modules():
        if run.ROTARY.search(type(module).__name__) or "Attention" in type(module).__name__:
            module.register_forward_pre_hook(catching, with_kwargs=True)
    try:
        model(**inputs)
    except Caught as ids:
        return ids.args[0]
    return None


def plain_arange(*args, arange=torch.arange, **kwargs):
    return arange(*args, **{k: v for k, v in kwargs.items() if k != "device"}, device="cpu")


def inputs_of(model):
    """What generate() hands the model, or forward() where it does not generate."""
    ids, given = torch.ones_like(MASK), {"attention_mask": MASK}
    if not model.can_generate():
        return {"input_ids": ids.to("meta"), "attention_mask": MASK}
    if "position_ids" in inspect.signature(model.forward).parameters and not model.config.is_encoder_decoder:
        given["position_ids"] = model._prepare_position_ids_for_generation(ids, given)
    inputs = model.prepare_inputs_for_generation(ids, is_first_iteration=True, use_cache=False, **given)
    inputs = {k: v for k, v in inputs.items() if v is not None}
    if torch.is_tensor(inputs.get("input_ids")):
        inputs["input_ids"] = inputs["input_ids"].to("meta")
    return inputs


def rule_of(ids):
    """The rule that makes these ids; three equal axes count as one."""
    if ids.dim() == 3 and all(torch.equal(ids[0], axis) for axis in ids):
        ids = ids[0]
    ids = ids.reshape(-1, MASK.shape[1]) if ids.dim() < 3 else ids
    fits = [name for name, want in RULES.items() if ids.dim() == 2 and torch.equal(ids.expand_as(MASK), want)]
    return fits[0] if fits else f"ids of another kind {tuple(ids.shape)}"


def counted(config, kind):
    with run.Watch(run.modules(*(part for part in parts(config) if part.model_type))) as watch:
        watch.patch(torch, "arange", plain_arange)
        with torch.device("meta"):
            model = kind(run.runnable(config)).eval()
        with torch.no_grad():
            ids = caught(model, inputs_of(model))
    return "no ids reach a rotary module" if ids is None else rule_of(ids)


def main(names):
    for model_type in names or sorted(CONFIG_MAPPING):
        try:
            config = CONFIG_MAPPING[model_type](**MUST_SAY.get(model_type, {}))
            kinds = [k for m in run.modules(config) for k in run.classes(m) if issubclass(k, PreTrainedModel)
                     and k.config_class is type(config) and "PreTrained" not in k.__name__]
        except Exception as error:
            print(model_type, "!", str(error)[:100])
            continue
        kinds.sort(key=lambda k: (not k.can_generate(), "Model" not in k.__name__, len(k.__name__)))
        if not kinds:
            continue
        try:
            rule = counted(config, kinds[0])
        except Exception as error:
            rule = f"! {type(error).__name__} {' '.join(str(error).split())[:120]}"
        print(model_type, kinds[0].__name__, kinds[0].can_generate(), rule, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
