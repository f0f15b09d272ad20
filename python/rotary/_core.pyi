"""The public functions of the C++ part. The others, which only the package calls, are described in python/src."""

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

def __getattr__(name: str) -> Any: ...  # the other functions, which take their arguments by position
