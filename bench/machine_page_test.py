"""Checks of machine_page.py with made-up figures."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from itertools import product
from pathlib import Path
from unittest import mock

import machine_page

CELL = {"op": "rotate", "tokens": 64, "threads": 1, "layout": "bthd", "head_dim": 128, "target": "avx2", "pages": "2 MiB",
        "ns_per_element": 0.25, "percent_of_ceiling": 90.0, "ratio_to_loop": 1.5}  # fmt: skip
KINDS = [CELL | {"in_place": in_place, "dtype": dtype, "pairing": pairing}
         for in_place, dtype, pairing in product((True, False), ("f32", "bf16", "f16"), ("half", "interleaved"))]  # fmt: skip


def page_of(*loop: dict, rows: list[dict] = KINDS) -> str:
    """On one line."""
    files = {"commit": "abc1234\n", "date": "2026-01-02\n"}
    files |= {name: "\n".join(map(json.dumps, of)) for name, of in (("rows.jsonl", rows), ("loop-native-1.jsonl", loop))}
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(sys, "argv", ["machine_page.py", "some-machine", folder]):
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            machine_page.main()
    return " ".join(out.getvalue().split())


class Page(unittest.TestCase):
    def expect(self, page: str, *words: str):
        for each in words:
            self.assertIn(each, page)

    def test_says_what_was_measured_where(self):
        page = page_of()
        self.expect(page, "# Speed: some-machine 2026-01-02, commit abc1234", "| 64 | in place | 0.250 (90 %) |", "Not measured")
        self.assertNotIn("Beside the plain loop", page)
        with self.assertRaisesRegex(SystemExit, "rows.jsonl must exist"):
            page_of(rows=[])

    def test_gives_the_median_and_the_worst(self):
        page = page_of(*(row | {"percent_of_ceiling": x, "head_dim": int(x)} for row, x in product(KINDS, (95.0, 80.0, 91.0))))
        self.expect(page, "| avx2 | 2 MiB | 1 | bthd | 64 | in place | 91 % | 80 % | f32 half in place, 64 tokens, head_dim 80,",
                    "None is below.")  # fmt: skip

    def test_names_the_cells_below_the_goals_that_arithmetic_does_not_explain(self):
        far = [row | {"tokens": 100000} for row in KINDS]  # from any memory
        far[0] |= {"ratio_to_loop": 0.5}
        far += [far[1] | {"layout": "bhtd", "percent_of_ceiling": percent} for percent in (79.9, 80.0)]
        cell = "in place, 100000 tokens, head_dim 128"
        self.expect(page_of(*far), f"| avx2 | 2 MiB | 1 | f32 | 6 | 1.50 | 0.50 | 1 | f32 half {cell}",
                    f"* 0.50 of the plain loop, not 0.97: avx2, f32 half {cell}, 2 MiB pages "
                    f"* 79.90 % of the ceiling, not 80: avx2, f32 interleaved {cell}, bhtd, 2 MiB pages #",
                    "26 of 28 goals hold. 0 cells more")  # fmt: skip
        for ns in (0.25, 0.1):  # of the same in a cache: as long, or as long with the move of the bytes
            self.expect(page_of(*far, far[1] | {"tokens": 64, "ns_per_element": ns}), "27 of 29 goals hold. 1 cells more")


if __name__ == "__main__":
    unittest.main()
