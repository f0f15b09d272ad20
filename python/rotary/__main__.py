"""The program rotary: python -m rotary COMMAND, the same as rotary COMMAND."""

from __future__ import annotations

import os
import signal
import sys

from . import _core


def main() -> int:
    words = ["rotary", *sys.argv[1:]]
    if words[1:2] == ["demo"] and "--data" not in words and not any(word.startswith("--data=") for word in words):
        words += ["--data", os.path.join(os.path.dirname(__file__), "demo")]
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the commands look at signals themselves, or end
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    return _core._run(words)


if __name__ == "__main__":
    sys.exit(main())
