"""The ropes of a part whose model takes token ids, found by running it (sweep/run.py).

The rotary module of each call, built again on the CPU from the same arguments, and the same apply function, called the
same way, then turn vectors (rotations.py).
"""
from types import SimpleNamespace

import torch

from rotations import record, ropes
from run import TOKENS, run


class Turner:
    """The rotary module and the apply function of one call, on numbers."""

    def __init__(self, call):
        self.call, self.layer_type = call, call.layer_type()
        module, self.args, self.kwargs = call.source()
        args, kwargs = module.made_of
        self.module = type(module)(*args, **{k: v for k, v in kwargs.items() if k != "device"}).eval()
        shape = call.q.shape
        self.size, self.heads_at = shape[-1], next(d for d in (1, 2) if shape[3 - d] == TOKENS)
        ids = [a for a in [*self.args, *self.kwargs.values()] if torch.is_tensor(a) and not a.is_floating_point()]
        self.axes = ids[0].shape[0] if ids and ids[0].dim() == 3 else 1

    def tables(self, position):
        """The rotary module's result for one token."""
        def there(a):
            if not torch.is_tensor(a):
                return a
            if a.is_floating_point():  # the hidden states, for their type only
                return torch.zeros(1, 1, 1)
            return torch.tensor(position).view(-1, 1, 1) if a.dim() == 3 else torch.tensor(position).view(1, 1)
        out = self.module(*map(there, self.args), **{k: there(a) for k, a in self.kwargs.items()})
        return out if isinstance(out, tuple) else (out,)

    def turn(self, x, position):
        tables = self.tables(position)
        heads = x[None, :, None] if self.heads_at == 1 else x[None, None]

        def there(a):
            if id(a) in self.call.tables:
                return tables[self.call.tables[id(a)][0]]
            return heads if torch.is_tensor(a) else a
        out = self.call.function(*map(there, self.call.args), **{k: there(a) for k, a in self.call.kwargs.items()})
        return (out[0] if isinstance(out, tuple) else out).reshape(x.shape)

    def own(self, word):
        """inv_freq or attention_scaling of the module, for the layer type if it has one per type."""
        prefix = f"{self.layer_type}_" if self.layer_type else ""
        value = getattr(self.module, prefix + word, None)
        return getattr(self.module, word, None) if value is None else value

    def width(self):
        """The width of the rotated block, with the pairs that stand still."""
        buffer = self.own("inv_freq")
        return None if buffer is None else min(2 * buffer.numel(), self.size)


def head_shape(config, turner):
    """(head_dim, where the turned slice begins): an MLA turns the end of its heads."""
    nope = getattr(config, "qk_nope_head_dim", None)
    if nope and turner.size == config.qk_rope_head_dim:
        return nope + turner.size, nope
    heads = getattr(config, "num_attention_heads", None)
    stated = getattr(config, "head_dim", None) or (config.hidden_size // heads if heads else 0)
    return max(turner.size, stated), 0


def heads_of(config):
    heads = config.num_attention_heads
    width = getattr(config, "embed_dim", None) or config.hidden_size
    return SimpleNamespace(heads=heads, kv_heads=getattr(config, "num_key_value_heads", None) or heads,
                           head_dim=getattr(config, "head_dim", None) or width // heads)


NO_ATTENTION = ("conv", "linear_attention")  # layer types


def describe(name, config, found, **more):
    """The records of one rope (or of its blocks) in all layers of a part, by the usual names of its config."""
    types = getattr(config, "layer_types", None) or [""] * getattr(config, "num_hidden_layers", 0)
    usual = {} if "heads" in more else vars(heads_of(config))
    if "layers" not in more:
        usual["layers"], usual["layers_without_rope"] = (
            [i for i, kind in enumerate(types) if (kind in NO_ATTENTION) == still] for still in (False, True))
    return [record(name, rope, **usual | more) for rope in found]


def has_layers(config):
    """False for a config that only holds others."""
    return hasattr(config, "num_hidden_layers") or any(word in name for name in vars(config)
                                                       for word in ("layers", "depth", "blocks"))


def merged(records):
    """Records that differ in their layers only, as one."""
    found = {}
    for entry in records:
        key = str({k: v for k, v in entry.items() if k != "layers"})
        if key in found:
            found[key]["layers"] = sorted({*found[key]["layers"], *entry["layers"]})
        else:
            found[key] = entry
    return list(found.values())


def attending(watch):
    """One call per attention: where q and k turn one after the other, the first, which then knows the second as k."""
    found = []
    for call in watch.calls:
        if not call.tables:
            raise ValueError(f"{call.path}: cos and sin are not as the rotary module made them")
        given = [*call.args, *call.kwargs.values()]
        if len(call.tables) < sum(torch.is_tensor(a) and a is not call.q and a is not call.k for a in given):
            continue  # DeepSeek-V4 turns its output back, by cos and -sin
        if found and call.k is None and found[-1].k is None and found[-1].path == call.path:
            found[-1].k = call.q
        else:
            found.append(call)
    return found


def one_kind(config, watch, calls, turning):
    turner, (where, first) = Turner(calls[0]), watch.place(calls[0])
    config = config.per_layer_config[first] if getattr(config, "is_heterogeneous", False) else config
    head_dim, offset = head_shape(config, turner)
    heads, kv_heads = (x.shape[turner.heads_at] if x is not None else None for x in (calls[0].q, calls[0].k))
    if offset or not kv_heads:  # an MLA's keys share one rotated block and have it in every head
        kv_heads = getattr(config, "num_key_value_heads", None) or heads
    how = {"layers": sorted({watch.place(call)[1] for call in calls}), "heads": heads, "kv_heads": kv_heads,
           "layers_without_rope": [i for i in range(watch.lists.get(where, 0)) if (where, i) not in turning],
           "head_dim": head_dim}
    return [record(type(turner.module).__name__, rope, **how)
            for rope in ropes(turner.turn, turner.size, turner.axes, buffer=turner.own("inv_freq"), offset=offset,
                              amplitude=turner.own("attention_scaling"), width=turner.width())]


def records(config, root):
    """The ropes of this part, [] where its code has none, or a line that says why this config turns nothing."""
    watch = run(config, root)
    if not watch.calls:
        return "no layer of the class default turns" if watch.rotary else []
    turning, kinds = {watch.place(call) for call in watch.calls}, {}
    for call in attending(watch):
        kind = (id(call.source()[0]), call.layer_type(), call.function.__name__, call.q.shape, watch.place(call)[0])
        kinds.setdefault(kind, []).append(call)
    return merged(entry for calls in kinds.values() for entry in one_kind(config, watch, calls, turning))
