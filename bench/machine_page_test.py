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

KINDS = list(product((True, False), ("f32", "bf16", "f16"), ("half", "interleaved")))


def cell(tokens: int, in_place: bool, dtype: str, pairing: str, **more) -> dict:
    return {"op": "rotate", "tokens": tokens, "in_place": in_place, "dtype": dtype, "pairing": pairing, "threads": 1,
            "layout": "bthd", "head_dim": 128, "rotary_dim": 128, "target": "avx2", "ns_per_element": 0.25,
            "percent_of_ceiling": 90.0, **more}  # fmt: skip


def page_of(files: dict[str, list[dict]]) -> str:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "commit").write_text("abc1234\n")
        (folder / "date").write_text("2026-01-02\n")
        for name, rows in files.items():
            (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        with mock.patch.object(sys, "argv", ["machine_page.py", "some-machine", place]):
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
                machine_page.main()
    return out.getvalue()


class Page(unittest.TestCase):
    rows = [cell(64, *kind) for kind in KINDS]

    def test_says_what_was_measured_where(self):
        page = page_of({"rows.jsonl": self.rows})
        self.assertTrue(page.startswith("# Speed: some-machine\n"))
        for words in ("2026-01-02", "abc1234", "Not measured on this machine", "| 64 | in place | 0.250 (90 %) |"):
            self.assertIn(words, page)
        self.assertNotIn("Beside the plain loop", page)

    def test_gives_the_median_and_the_worst_by_layout(self):
        loop = [cell(64, *kind, percent_of_ceiling=percent, head_dim=dim, pages="2 MiB", ratio_to_loop=1.5)
                for kind, (percent, dim) in product(KINDS, ((95.0, 64), (80.0, 80), (91.0, 128)))]  # fmt: skip
        loop += [row | {"pages": "4 KiB"} for row in loop if row["head_dim"] == 128]
        page = page_of({"rows.jsonl": self.rows, "loop-native-all.jsonl": loop})
        self.assertIn("| avx2 | 1 | bthd | 64 | in place | 91 % | 80 % | f32 half, 80 |", page)
        self.assertIn("None is below.", page)

    def test_names_the_cells_below_the_goals(self):
        tokens = 100000  # from any memory
        both = ("2 MiB", "4 KiB")
        loop = [cell(tokens, *kind, pages=pages, ratio_to_loop=1.5) for kind, pages in product(KINDS, both)]
        loop[0]["ratio_to_loop"] = 0.5
        loop += [loop[1] | {"layout": "bhtd", "percent_of_ceiling": percent} for percent in (79.9, 80.0)]
        for row in loop:
            row["ratio_to_loop"] = None if row["dtype"] == "f16" else row["ratio_to_loop"]
            row["ns_per_element"] *= 1.1 if row["pages"] == "4 KiB" else 1
        page = page_of({"rows.jsonl": self.rows, "loop-native-all.jsonl": loop})
        where = f"f32 half in place, {tokens} tokens, head_dim 128"
        self.assertIn(f"| avx2 | 2 MiB | 1 | f32 | 4 | 1.50 | 0.50 | 1 | {where[4:]} |", page)
        self.assertIn(f"* 0.50 of the plain loop, not 0.97: avx2, {where}, 2 MiB pages "
                      f"* 79.90 % of the ceiling, not 80: avx2, {where}, bhtd, 4 KiB pages #", " ".join(page.split()))
        self.assertIn(f"| avx2 | {tokens} | in place | 90 % | 90 % | 90 % | 90 % | 1.10 |", page)
        self.assertIn("42 of 44 goals hold. 0 cells more", " ".join(page.split()))
        near = [loop[1] | {"tokens": 64, "pages": pages, "percent_of_ceiling": 10.0} for pages in both]
        page = page_of({"rows.jsonl": self.rows, "loop-native-all.jsonl": [*loop, *near]})
        self.assertIn("44 of 46 goals hold. 1 cells more", " ".join(page.split()))
        self.assertNotIn("79.90 %", page)
        near = [row | {"ns_per_element": 0.1} for row in near]
        page = page_of({"rows.jsonl": self.rows, "loop-native-all.jsonl": [*loop, *near]})
        self.assertIn("0 cells more are kept", " ".join(page.split()))
        self.assertIn("1 take no longer than that and the move", " ".join(page.split()))

    def test_refuses_a_folder_without_figures(self):
        with self.assertRaisesRegex(SystemExit, "rows.jsonl must exist"):
            page_of({})


if __name__ == "__main__":
    unittest.main()
