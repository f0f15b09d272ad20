"""python -m rotary COMMAND runs the program, which is a package of its own, rotary-cli."""

import os
import shutil
import subprocess
import sys
import sysconfig

if __name__ == "__main__":
    # The program beside this Python comes before those of PATH.
    program = shutil.which("rotary", path=sysconfig.get_path("scripts")) or shutil.which("rotary")
    if program is None:
        sys.exit("rotary: the program is a package of its own: pip install rotary-cli")
    if os.name == "posix":
        os.execv(program, [program, *sys.argv[1:]])
    sys.exit(subprocess.call([program, *sys.argv[1:]]))
