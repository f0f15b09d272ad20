"""Runs the examples of README.md, docs/convert.md, docs/python.md and docs/explain and compares what they print."""

import contextlib
import io
import pathlib
import re
import unittest
from importlib.util import find_spec

import rotary

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "docs" / "convert.md", ROOT / "docs" / "python.md",
         *sorted((ROOT / "docs" / "explain").glob("*.md"))]
BLOCK = re.compile(r"```python\n(.*?)```(?:\n```text\n(.*?)```)?", re.DOTALL)
FRAMEWORK = re.compile(r"^(?:import|from) (torch|jax|transformers|matplotlib)\b", re.MULTILINE)


def lacks(blocks):
    return any(find_spec(name) is None for code, _ in blocks for name in FRAMEWORK.findall(code))


class Docs(unittest.TestCase):
    def test_examples(self):
        for page in PAGES:
            with self.subTest(page.name):
                self.run_page(page)

    def run_page(self, page):
        """Drops the sections that import a library which is not installed; all, if the first one does."""
        names, text = {}, page.read_text()
        if page.parent.name == "explain" and lacks(BLOCK.findall(text)[:1]):
            return
        for section in re.split("^## ", text, flags=re.MULTILINE):
            blocks = BLOCK.findall(section)
            if lacks(blocks):
                continue
            for code, expected in blocks:
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, str(page), "exec"), names)
                self.assertEqual(printed.getvalue(), expected)

    def test_the_page_names_everything(self):
        page = "".join(page.read_text() for page in PAGES)
        modules = rotary, rotary.cpu, rotary.makers, rotary.positions, rotary.scalings, rotary.tools
        missing = [name for module in modules for name in module.__all__ if name not in page]
        self.assertEqual(missing, [])
