"""The instruction sets and the threads of this process."""

from ._core import chosen_target, get_num_threads, self_test, targets, use_target

__all__ = ["chosen_target", "get_num_threads", "self_test", "targets", "use_target"]
