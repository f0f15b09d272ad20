"""The C++ part: what the package shows of it. python/src says of each other function what it takes and gives."""

from typing import Any

__version__: str

class Error(ValueError):
    code: str

def targets() -> tuple[tuple[str, bool], ...]: ...
def chosen_target() -> str: ...
def use_target(name: str, /) -> None: ...
def self_test() -> None: ...
def set_num_threads(count: int, /) -> None: ...
def get_num_threads() -> int: ...

class _Rows:
    _torch_cos: Any
    _torch_sin: Any
    _torch_copies: Any
    _xpos: bool

def __getattr__(name: str) -> Any: ...  # the functions that only the package calls, every argument by its place
