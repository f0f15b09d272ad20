"""transformers, 4.36 and later: one forward call of the model, on the meta device but for its rotary modules. The q
that enters the apply function of the case's layer is the case's, and what comes out is read."""
import json
import pathlib
import sys

import torch
from harness import NotThere, OtherHead, main
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

CPU, META = torch.device("cpu"), torch.device("meta")


class Done(Exception):
    """The layer's rotation is read."""


def real(x):
    return torch.zeros(x.shape) if getattr(x, "is_meta", False) else x


def table(x, now):
    """The rotary module's own output in place of a copy of it on the meta device."""
    if not getattr(x, "is_meta", False):
        return x
    made = now["tables"] if isinstance(now["tables"], tuple) else (now["tables"],)
    return made[[t.shape for t in made].index(x.shape)]


def make_on_cpu(cls, now):
    """A rotary module is made and called on the CPU. One that counts tokens (before 4.45) is told the whole length."""
    init, forward = cls.__init__, cls.forward

    def made(self, *a, **k):
        with CPU:
            init(self, *a, **k)

    def called(self, *a, **k):
        if "seq_len" in k:
            k["seq_len"] = torch.tensor(now["length"]) if isinstance(k["seq_len"], torch.Tensor) else now["length"]
        with CPU:
            now["tables"] = forward(self, *map(real, a), **{name: real(x) for name, x in k.items()})
        return now["tables"]

    cls.__init__, cls.forward = made, called


def read_apply(function, now, q):
    """The apply function that rotates the case's q at the case's layer."""
    def applied(first, *rest, **named):
        if now["layer"] != now["wanted"]:
            return function(first, *rest, **named)
        begin, width = first.storage_offset() % q.shape[1], first.shape[-1]
        if width > q.shape[1]:
            raise OtherHead(width)
        part = q[:, begin:begin + width]
        tokens_first = first.shape[1] == len(q) != first.shape[2]
        turned = part[None, :, None] if tokens_first else part[None, None]
        key = [torch.zeros(rest[0].shape)] if rest and getattr(rest[0], "is_meta", False) else []
        out = function(turned.expand(first.shape).clone(), *key, *(table(x, now) for x in rest[len(key):]),
                       **{name: table(x, now) for name, x in named.items()})
        out = out[0] if isinstance(out, tuple) else out
        now["out"] = torch.cat([q[:, :begin], out[0, :, 0] if tokens_first else out[0, 0], q[:, begin + width:]], 1)
        raise Done
    return applied


def rotate(folder, case, q, positions):
    path = pathlib.Path(folder) / "config.json"
    said = json.loads(path.read_text()) if path.exists() else {"model_type": ""}
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
    home = sys.modules[maker._model_mapping[type(config)].__module__]
    now = {"layer": None, "wanted": case["layer"], "length": case["length"] or int(positions.max()) + 1}
    kept = dict(vars(home))
    try:
        for name, thing in kept.items():
            if isinstance(thing, type) and issubclass(thing, torch.nn.Module) and "Rotary" in name:
                setattr(home, name, type(name, (thing,), {}))
                make_on_cpu(getattr(home, name), now)
            elif callable(thing) and name.startswith("apply_") and "rot" in name:
                setattr(home, name, read_apply(thing, now, torch.tensor(q)))
            elif name.startswith("create_") and name.endswith("_mask"):  # which token sees which is not measured
                setattr(home, name, lambda *a, **k: None)
        return call(maker, config, now, torch.tensor(positions))
    except (NotImplementedError, RuntimeError) as error:
        if "meta" in str(error):
            raise NotThere("its forward call needs numbers that the meta device has not") from None
        raise
    finally:
        vars(home).update(kept)


def call(maker, config, now, positions):
    """The model's forward call, in which every layer but the wanted one hands on what it is given."""
    with META:
        model = maker.from_config(config).eval()
    lists = (m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
    layers = next(m for m in lists if len(m) == config.num_hidden_layers)
    ids = torch.zeros(1, positions.shape[-1], dtype=torch.long, device=META)
    positions = positions[..., None, :]
    for as_tuple in False, True:
        for i, layer in enumerate(layers):
            if i != now["wanted"]:
                layer.forward = lambda h, *a, **k: (h, None) if as_tuple else h
        layers[now["wanted"]].register_forward_pre_hook(lambda *_: now.update(layer=now["wanted"]))
        try:
            model(input_ids=ids, position_ids=positions)
        except Done:
            return now["out"].numpy()
        except Exception:
            if as_tuple or now["wanted"] == 0 or now["layer"] is not None:
                raise
    raise NotThere("no apply function was called")


if __name__ == "__main__":
    main(rotate)
