"""docs/torch.md says what its programs print: test_docs.py DOCS EXAMPLE_SOURCE EXAMPLE LIBRARY."""

import contextlib
import io
import re
import subprocess
import sys

docs, source, example, library = sys.argv[1:]
text = open(docs).read()
(cpp, cpp_output), (python, python_output) = (
    re.search(rf"```{language}\n(.*?)```\n```text\n(.*?)```", text, re.S).groups() for language in ("cpp", "python")
)


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{docs}: {what} differs; the docs have\n{wanted}\nbut it is\n{got}")


expect("the C++ program", open(source).read().split("\n", 1)[1], cpp)
expect("its output", subprocess.run([example], check=True, capture_output=True, text=True).stdout, cpp_output)
try:
    import torch  # noqa: F401
except (ImportError, OSError):
    print("the Python program was not run: no importable torch")
    sys.exit(0)
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    exec(python.replace("build/release/lib/librotary_torch.so", library), {})
expect("the Python program's output", printed.getvalue(), python_output)
print("docs/torch.md: both programs print what it says")
