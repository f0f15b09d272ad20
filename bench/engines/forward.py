"""One forward call of a torch model on the meta device, whose rotary modules stand on the CPU and whose apply function
is given q at one layer: what comes out of it is the model's own rotation of q, wherever the model calls it."""
import sys

import torch
from harness import NotThere, OtherHead

CPU, META = torch.device("cpu"), torch.device("meta")


class Done(Exception):
    """The layer's rotation is read."""


class Forward:
    """The question (layer, length of the sequence, q) and the things seen on the way."""

    def __init__(self, layer, length, q):
        self.layer, self.length, self.q = layer, length, torch.tensor(q)
        self.inside, self.tables, self.out = False, (), None

    def table(self, x):
        """The rotary module's own output in place of a copy of it on the meta device."""
        return next(t for t in self.tables if t.shape == x.shape) if getattr(x, "is_meta", False) else x

    def rotary(self, kind):
        """The class, made and called on the CPU. One that counts tokens (before 4.45) is told the whole length."""
        def init(module, *a, **k):
            with CPU:
                kind.__init__(module, *a, **k)

        def forward(module, *a, **k):
            if "seq_len" in k:
                k["seq_len"] = torch.tensor(self.length) if isinstance(k["seq_len"], torch.Tensor) else self.length
            with CPU:
                made = kind.forward(module, *map(real, a), **{name: real(x) for name, x in k.items()})
            self.tables = made if isinstance(made, tuple) else (made,)
            return made
        return type(kind.__name__, (kind,), {"__init__": init, "forward": forward})

    def apply(self, function):
        """The apply function, which rotates q at the layer."""
        def applied(first, *rest, **named):
            if not self.inside:
                return function(first, *rest, **named)
            q, begin, width = self.q, first.storage_offset() % self.q.shape[1], first.shape[-1]
            if width > q.shape[1]:
                raise OtherHead(width)
            tokens_first = first.shape[1] == len(q) != first.shape[2]
            part = q[:, begin:begin + width]
            turned = (part[None, :, None] if tokens_first else part[None, None]).expand(first.shape).clone()
            key = [torch.zeros(rest[0].shape)] if rest and getattr(rest[0], "is_meta", False) else []
            out = function(turned, *key, *map(self.table, rest[len(key):]),
                           **{name: self.table(x) for name, x in named.items()})
            out = out[0] if isinstance(out, tuple) else out
            out = out[0, :, 0] if tokens_first else out[0, 0]
            self.out = torch.cat([q[:, :begin], out, q[:, begin + width:]], 1)
            raise Done
        return applied

    def call(self, maker, config, positions):
        """The rotation that the model's module calls; the layers but the asked one hand on what they are given."""
        home = sys.modules[maker._model_mapping[type(config)].__module__]
        kept = dict(vars(home))
        for name, thing in kept.items():
            if isinstance(thing, type) and issubclass(thing, torch.nn.Module) and "Rotary" in name:
                setattr(home, name, self.rotary(thing))
            elif callable(thing) and name.startswith("apply_") and "rot" in name:
                setattr(home, name, self.apply(thing))
            elif name.startswith("create_") and name.endswith("_mask"):  # which token sees which is not measured
                setattr(home, name, lambda *a, **k: None)
        try:
            return self.run(maker, config, torch.tensor(positions)[..., None, :])
        except (NotImplementedError, RuntimeError) as error:
            if "meta" in str(error):
                raise NotThere("its forward call needs numbers that the meta device has not") from None
            raise
        finally:
            vars(home).update(kept)

    def run(self, maker, config, positions):
        with META:
            model = maker.from_config(config).eval()
        lists = (m for m in model.modules() if isinstance(m, torch.nn.ModuleList))
        layers = next(m for m in lists if len(m) == config.num_hidden_layers)
        layers[self.layer].register_forward_pre_hook(lambda *_: setattr(self, "inside", True))
        ids = torch.zeros(1, positions.shape[-1], dtype=torch.long, device=META)
        for as_tuple in False, True:
            for i, layer in enumerate(layers):
                if i != self.layer:
                    layer.forward = lambda h, *a, **k: (h, None) if as_tuple else h
            try:
                model(input_ids=ids, position_ids=positions)
            except Done:
                return self.out.numpy()
            except Exception:
                if as_tuple or self.layer == 0 or self.inside:
                    raise
        raise NotThere("no apply function was called")


def real(x):
    return torch.zeros(x.shape) if getattr(x, "is_meta", False) else x
