"""python -m rotary COMMAND runs the program, which is a package of its own, rotary-cli."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig


def main() -> int:
    """Runs the program that is installed beside this Python, else the one that PATH finds."""
    program = shutil.which("rotary", path=sysconfig.get_path("scripts")) or shutil.which("rotary")
    if program is None:
        print("rotary: the program is a package of its own: pip install rotary-cli", file=sys.stderr)
        return 1
    words = [program, *sys.argv[1:]]
    if os.name == "posix":
        os.execv(program, words)
    return subprocess.call(words)


if __name__ == "__main__":
    sys.exit(main())
