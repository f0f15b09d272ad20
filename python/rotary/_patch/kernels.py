# mypy: disable-error-code="import-not-found,attr-defined,no-any-return,no-untyped-call,no-untyped-def,misc"
"""rotary.kernels_mapping: rotary as a kernel for Hugging Face's kernels."""

from __future__ import annotations

import inspect
from types import FunctionType

import torch

from . import PatchError
from .functions import Found, home, reached_functions, underlying
from .patching import compare, fit, prove_found
from .replacing import replacement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .patching import Place

_NAME = "rotary_pos_emb"


def _layer_name(found: Found) -> str | None:
    """The name that transformers' decorator gave a function, where kernels is of a version that it knows."""
    name = getattr(type(found.value), "kernel_layer_name", None)
    return str(name) if name is not None else None


class Adapter:
    """What kernels asks of a repository: load() gives a class whose forward is the function.

    Equal adapters stand for the same function, so that kernels loads each once.
    """

    layer_name = _NAME

    def __init__(self, place: Place) -> None:
        self._place = place

    def load(self) -> type[torch.nn.Module]:
        """A torch.nn.Module without parameters, with the signature of the function that it replaces."""
        original = self._place.original
        function = replacement(_inner(original), self._place.proof, underlying(original))

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        signature = inspect.signature(underlying(original))
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        forward.__dict__["__signature__"] = signature.replace(parameters=[own, *signature.parameters.values()])
        members = {"forward": forward, "can_torch_compile": True, "has_backward": True, "__module__": __name__}
        return type("RotaryPosEmb", (torch.nn.Module,), members)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Adapter) and self._place.original is other._place.original

    def __hash__(self) -> int:
        return hash((Adapter, id(self._place.original)))

    def __deepcopy__(self, memo: object) -> Adapter:
        return self

    def __str__(self) -> str:
        return f"rotary's {underlying(self._place.original).__module__}.{underlying(self._place.original).__name__}"


def _inner(original: Any) -> Any:
    """What runs where a call is outside of what was proved: never the module whose forward is about to be this one."""
    inner = underlying(original)
    return inner if isinstance(inner, FunctionType) else original


def mapping(model: Any) -> dict[str, dict[str, Any]]:
    """rotary.kernels_mapping."""
    fit(model, force=False)
    marked = [one for one in reached_functions(model) if _is_marked(one)]
    if not marked:
        raise PatchError(
            "TORCH",
            f"[kernels_mapping] the modeling code of {type(model).__name__} must mark a function as {_NAME} but marks "
            "none: use rotary.patch",
        )
    places = [prove_found(one) for one in marked]
    compare(model, marked, places, "model")
    behaviours = {(place.proof.behaviour, place.proof.shapes, place.proof.block) for place in places}
    if len(behaviours) > 1:
        raise PatchError(
            "TORCH",
            f"[kernels_mapping] all functions of the name {_NAME} must do the same but do "
            f"{' and '.join(str(place.proof.behaviour) for place in places)}: use rotary.patch",
        )
    devices = {parameter.device.type for parameter in model.parameters()} or {"cpu"}
    return {_NAME: {device: Adapter(places[0]) for device in sorted(devices)}}


def _is_marked(found: Found) -> bool:
    """Whether transformers marks the function for kernels: by its decorator, or by the decorator's text where the version
    of kernels makes it do nothing."""
    name = _layer_name(found)
    if name is not None:
        return name == _NAME
    if home(found) is not None:
        return False
    function = inspect.unwrap(underlying(found.value))
    try:
        return f'("{_NAME}")' in inspect.getsource(function).partition("def ")[0]
    except OSError:
        return False
