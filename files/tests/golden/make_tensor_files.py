#!/usr/bin/env python3
"""Writes package.safetensors and numpy_*.npy beside itself: small tensor files by the formats' own programs.

Made with safetensors 0.8.0, torch 2.15.0, numpy 2.4.6. The tests only read the files; their values are the formulas
below, repeated in files_test.cpp.
"""
import pathlib

import numpy as np
import safetensors.torch
import torch

HERE = pathlib.Path(__file__).parent


def counted(shape, dtype):
    """0, 1, 2, ... in row-major order."""
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


def main():
    tensors = {
        "q": torch.arange(6, dtype=torch.bfloat16).reshape(1, 2, 3),
        "k": torch.arange(4, dtype=torch.float16),
        "x": torch.arange(4, dtype=torch.float32).reshape(2, 2),
        "positions": torch.arange(-1, 2, dtype=torch.int64),
        "scalar": torch.tensor(2.5, dtype=torch.float64),
        "empty": torch.zeros(0, 4),
        "mask": torch.tensor([True, False, True]),
        'grö\n"ße"\\': torch.arange(2, dtype=torch.uint8),
    }
    safetensors.torch.save_file(tensors, HERE / "package.safetensors", metadata={"format": "pt"})

    def save(name, array, version=(1, 0)):
        with open(HERE / f"numpy_{name}.npy", "wb") as file:
            np.lib.format.write_array(file, array, version=version)

    save("f4", counted((2, 3), "<f4"))
    save("scalar", np.array(2.5, "<f8"))
    save("empty", counted((0, 3), "<f2"))
    save("one", counted((5,), "<i8"))
    save("b1", np.array([True, False, True]))
    save("fortran", np.asfortranarray(counted((2, 3, 4), "<f8")))
    save("big", counted((2, 3), ">i4"))
    save("big_fortran", np.asfortranarray((counted((2, 3), ">f4") * (1 - 1j)).astype(">c8")))
    save("version2", counted((2, 3), "<u2"), (2, 0))
    save("version3", counted((2, 3), "<f2"), (3, 0))


if __name__ == "__main__":
    main()
