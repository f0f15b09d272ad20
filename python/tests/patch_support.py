"""What the tests of rotary.patch share; transformers is imported nowhere else than here."""

import unittest

try:
    import torch
    import transformers
except ImportError:
    torch = transformers = None

needs_transformers = unittest.skipIf(transformers is None, "transformers is not installed")
if transformers is not None:
    import tiny_models

    tiny_models.quiet()
    torch.set_num_threads(1)  # the models are tiny

__all__ = ["needs_transformers", "torch", "transformers"]
