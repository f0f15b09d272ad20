#!/usr/bin/env python3
"""Draws the pictures of docs: python3 tools/pictures.py. Needs the packages rotary and matplotlib."""
import pathlib

import rotary
from rotary.scalings import Linear, Llama3, Ntk, Yarn
from rotary.tools import plot

ROOT = pathlib.Path(__file__).resolve().parents[1]
LLAMA_2, LLAMA_31, QWEN_VL, GPT_OSS, DEEPSEEK, PHI_3 = (
    ROOT / "files/tests/golden/configs" / f"{name}.json"
    for name in ("llama-2-7b", "llama-3.1-8b", "qwen2.5-vl-7b", "gpt-oss-20b", "deepseek-v3", "phi-3-mini-128k")
)
PLAIN = rotary.Rope(head_dim=128, base=10000, pairing="half")
SCALINGS = (Linear(factor=4), Ntk(factor=4), Yarn(factor=4, trained_length=4096),
            Llama3(factor=4, trained_length=4096))  # fmt: skip
AXIAL = rotary.makers.axial(head_dim=64, axes=2, base=100, pairing="half")


def pictures() -> dict[str, plot.Figure]:
    """The files below docs, and the figure of each."""
    return {
        "pictures/wavelengths.svg": plot.wavelengths(LLAMA_2, LLAMA_31, QWEN_VL, GPT_OSS),
        "pictures/stretch.svg": plot.stretch(LLAMA_31, GPT_OSS, DEEPSEEK, PHI_3),
        "explain/04-angles.svg": plot.table(PLAIN),
        "explain/08-wavelengths.svg": plot.wavelengths(PLAIN),
        "explain/08-decay.svg": plot.decay(PLAIN, last=65536),
        "explain/11-scaling.svg": plot.stretch(*(PLAIN.replace(scaling=scaling) for scaling in SCALINGS)),
        "explain/12-precision.svg": plot.accuracy(PLAIN),
        "explain/13-axes.svg": plot.patches(AXIAL, reach=16),
    }


if __name__ == "__main__":
    for name, figure in pictures().items():
        plot.save(figure, ROOT / "docs" / name)
        print(f"docs/{name}")
