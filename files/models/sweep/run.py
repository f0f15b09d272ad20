"""Runs a model of token ids on the meta device (shapes, no numbers) and watches what is rotated, for generic.py.

Its rotary classes and apply functions are watched while token ids go through all of its layers: which layer calls
which apply function, with the cos and sin of which rotary module, made of which arguments, and with how many heads.
"""
import contextlib
import copy
import functools
import importlib
import inspect
import json
import pathlib
import re

import torch
import transformers
from transformers import PreTrainedModel

MODELS = pathlib.Path(transformers.__file__).parent / "models"
TOKENS = 11  # not a number of heads
ROTARY = re.compile(r"rotary|rope", re.IGNORECASE)
APPLY = re.compile(r"^_?(vision_)?apply_.*(rotary|rope)")
MASK = re.compile(r"^create_.*mask")  # they look at numbers, and a mask turns nothing
INDEXER = re.compile(r"indexer|compressor")  # they choose what attention sees, with heads of their own
CASES = json.loads((pathlib.Path(__file__).parent / "cases.json").read_text())

# Questions about numbers, which the meta device cannot answer: everything is zero, nothing is found.
ANSWERS = {"item": lambda *_: 0, "__bool__": lambda *_: False, "__index__": lambda *_: 0, "__int__": lambda *_: 0,
           "nonzero": lambda t, **_: torch.empty(0, t.dim(), dtype=torch.long)}


def folder_of(config):
    """The folder of models that the config's class lives in."""
    return type(config).__module__.split(".")[2]


def other_model(config, mapping=transformers.MODEL_MAPPING):
    """[the model of another model_type that runs the config], by default the bare one, where its folder has no code."""
    if any((MODELS / folder_of(config)).glob("modeling_*.py")) or type(config) not in mapping:
        return []
    return [mapping[type(config)]]


def modeling_files(config):
    folders = [folder_of(config), *(kind.__module__.split(".")[2] for kind in other_model(config))]
    return sorted(path for folder in folders for path in (MODELS / folder).glob("modeling_*.py"))


def modules(*configs):
    """Their modeling modules, imported."""
    files = dict.fromkeys(path for config in configs for path in modeling_files(config))
    return [importlib.import_module(f"transformers.models.{path.parent.name}.{path.stem}") for path in files]


def modeling(config):
    """The modeling module that is named like the folder."""
    return importlib.import_module("transformers.models.{0}.modeling_{0}".format(folder_of(config)))


def classes(module):
    return [kind for kind in vars(module).values() if inspect.isclass(kind) and kind.__module__ == module.__name__]


def model_classes(config, *others):
    """The model classes made for the config, in its own module and in those of the other configs."""
    return [kind for module in modules(config, *others) for kind in classes(module)
            if issubclass(kind, PreTrainedModel) and kind.config_class is type(config)
            and "PreTrained" not in kind.__name__]


def model_class(config, root):
    """The bare model that is built from this config: of those made for its class, the plainest."""
    found = model_classes(config, root) or other_model(config)
    if not found:
        raise ValueError(f"no model is made for {type(config).__name__}")
    return min(found, key=lambda k: (not k.__name__.endswith("Model"), "For" in k.__name__, len(k.__name__)))


def patch(undo, owner, name, value):
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)


def remember(undo, kind):
    """The instances of the class know what they were made_of."""
    init = kind.__init__

    @functools.wraps(init)
    def with_arguments(self, *args, **kwargs):
        init(self, *args, **kwargs)
        self.__dict__["made_of"] = (args, kwargs)
    patch(undo, kind, "__init__", with_arguments)


class Call:
    """One call of an apply function: where, of what shape, and how to make it again.

    tables: for each argument (by id) that a rotary module made: (which of its results, module, args, kwargs).
    """

    def __init__(self, path, function, args, kwargs, tables):
        self.path, self.function, self.args, self.kwargs, self.tables = path, function, args, kwargs, tables
        self.q = args[0]
        self.k = next((a for a in args[1:2] if torch.is_tensor(a) and a.dim() == self.q.dim()), None)

    def source(self):
        """(module, args, kwargs) of the cos and sin."""
        return next(iter(self.tables.values()))[1:]

    def layer_type(self):
        _, args, kwargs = self.source()
        return next((a for a in [*args, *kwargs.values()] if isinstance(a, str)), None)


class Watch:
    """Rotary classes remember what they were made of; apply functions and rotary modules, what they were given."""

    def __init__(self, watched):
        self.watched, self.mask = watched, None
        self.calls, self.lists, self.stack = [], {}, []  # apply calls; lists of modules: their length; paths that run
        self.tables, self.kept = {}, []  # tensor's id: what made it; every tensor, so that no id comes twice
        self.inside, self.rotary, self.undo = 0, False, contextlib.ExitStack()

    def __enter__(self):
        for module in self.watched:
            for kind in classes(module):
                if ROTARY.search(kind.__name__) and issubclass(kind, torch.nn.Module):
                    remember(self.undo, kind)
            for name, function in list(vars(module).items()):
                if APPLY.match(name) and inspect.isfunction(function):
                    patch(self.undo, module, name, self.noting(function))
                if MASK.match(name):
                    patch(self.undo, module, name, lambda *_, **__: self.mask)
        for name, answer in ANSWERS.items():
            patch(self.undo, torch.Tensor, name, answer)
        patch(self.undo, torch, "nonzero", ANSWERS["nonzero"])
        return self

    def __exit__(self, *_):
        self.undo.close()

    def noting(self, function):
        def noted(*args, **kwargs):
            everything = [*args, *kwargs.values()]
            tables = {id(a): self.tables[id(a)] for a in everything if id(a) in self.tables}
            self.kept.append(everything)
            path = self.stack[-1] if self.stack else ""
            if not self.inside and not INDEXER.search(path):  # an apply function may call another
                self.calls.append(Call(path, function, args, kwargs, tables))
            self.inside += 1
            try:
                return function(*args, **kwargs)
            finally:
                self.inside -= 1
        return noted

    def follow(self, model):
        """Hooks: the path of the module that runs now, and what each rotary module made of which arguments."""
        for path, module in model.named_modules():
            module.register_forward_pre_hook(lambda m, a, path=path: self.stack.append(path))
            module.register_forward_hook(lambda m, a, out: self.stack.pop() and None, always_call=True)
            if hasattr(module, "made_of"):
                self.rotary = True
                module.register_forward_hook(self.tables_of, with_kwargs=True)
            if isinstance(module, torch.nn.ModuleList):
                self.lists[path] = len(module)

    def tables_of(self, module, args, kwargs, out):
        for slot, tensor in enumerate(out if isinstance(out, tuple) else [out]):
            self.kept.append(tensor)
            self.tables[id(tensor)] = (slot, module, args, kwargs)

    def place(self, call):
        """(path of the list of layers, number of the layer): "encoder.layers.3.self_attn" is encoder.layers, 3."""
        found = re.match(r"(?:(.*?)\.)?(\d+)(?:\.|$)", call.path)
        return (found[1] or "", int(found[2])) if found else ("", 0)


def runnable(config):
    config = copy.deepcopy(config)
    config._attn_implementation = "eager"
    for name, value in CASES["run_with"].get(config.model_type, {}).items():
        value = config.hidden_size // config.num_attention_heads if value is None else value
        setattr(config, name, getattr(config, value) if isinstance(value, str) else value)
    return config


def run(config, root):
    """The watch that stood by while one sequence went through the model of this part."""
    errors = []
    for given, masked in (("input_ids", False), ("input_ids", True), ("inputs_embeds", False)):
        try:
            return attempt(runnable(config), root, given, masked)
        except Exception as error:  # some layers do not take None for a mask, some models no ids
            errors.append(error)
    raise errors[0]


def attempt(config, root, given, masked):
    torch.distributions.Distribution.set_default_validate_args(False)
    with Watch(modules(config, root)) as watch, torch.device("meta"), torch.no_grad():
        watch.mask = torch.zeros(1, 1, TOKENS, TOKENS) if masked else None
        model = model_class(config, root)(config).eval()
        watch.follow(model)
        ids = torch.zeros(1, TOKENS, dtype=torch.long)
        inputs = {given: ids if given == "input_ids" else torch.zeros(1, TOKENS, config.hidden_size)}
        if config.model_type in CASES["looks_at_an_encoder"]:
            inputs["encoder_hidden_states"] = torch.zeros(1, TOKENS, config.hidden_size)
        model(**inputs, use_cache=False)
    return watch
