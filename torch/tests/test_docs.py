"""A page says what its programs print: test_docs.py DOCS EXAMPLE_SOURCE EXAMPLE [LIBRARY].

LIBRARY: the page has a Python program too, which loads it.
"""

import contextlib
import io
import re
import subprocess
import sys

docs, source, example, *library = sys.argv[1:]
text = open(docs).read()


def program(language):
    return re.search(rf"```{language}\n(.*?)```\n```text\n(.*?)```", text, re.S).groups()


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{docs}: {what} differs; the docs have\n{wanted}\nbut it is\n{got}")


code, output = program("cpp")
expect("the C++ program", open(source).read().lstrip("\n"), code)
expect("its output", subprocess.run([example], check=True, capture_output=True, text=True).stdout, output)
if library:
    code, output = program("python")
    try:
        import torch  # noqa: F401
    except (ImportError, OSError):
        print("the Python program was not run: no importable torch")
        sys.exit(0)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code.replace("build/release/lib/librotary_torch.so", library[0]), {})
    expect("the Python program's output", printed.getvalue(), output)
print(f"{docs}: its programs print what it says")
