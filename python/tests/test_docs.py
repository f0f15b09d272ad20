"""Runs the examples of docs/python.md and compares what they print."""

import contextlib
import io
import pathlib
import re
import unittest
from importlib.util import find_spec

import rotary

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"


def section_of(page, code):
    return re.findall("^## (.*)$", page[: page.index(code)], re.MULTILINE)[-1]


class Docs(unittest.TestCase):
    def test_examples(self):
        page = PAGE.read_text()
        blocks = re.findall(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", page, re.DOTALL)
        self.assertGreater(len(blocks), 4)
        names = {}
        for code, expected in blocks:
            framework = section_of(page, code).lower()
            if framework in ("jax", "torch") and find_spec(framework) is None:
                continue
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(compile(code, str(PAGE), "exec"), names)
            self.assertEqual(printed.getvalue(), expected)

    def test_all_names_are_told(self):
        page = PAGE.read_text()
        hidden = {"__version__", "Array", "Scaling"}
        missing = [name for name in rotary.__all__ if name not in hidden and f"`{name}" not in page]
        self.assertEqual(missing, [])


if __name__ == "__main__":
    unittest.main()
