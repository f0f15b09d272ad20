"""slim_flashinfer.py IN.whl OUT.zip: keeps the files that its rope needs, to be unpacked on PYTHONPATH. The wheel is
larger than a lent machine takes, and nine tenths of it are other kernels."""

import sys
import zipfile

DATA = "flashinfer/data/"


def kept(name: str) -> bool:
    if not name.startswith(DATA):
        return not name.endswith((".so", ".cubin"))
    part = name[len(DATA) :]
    if part.startswith("csrc/"):
        return part.count("/") == 1 and ("rope" in part or part.endswith((".h", ".cuh", ".inc")))
    if part.startswith("cutlass/"):
        return part.startswith(("cutlass/include/", "cutlass/tools/util/include/"))
    return True


with (zipfile.ZipFile(sys.argv[1]) as wheel,
      zipfile.ZipFile(sys.argv[2], "w", zipfile.ZIP_DEFLATED, compresslevel=9) as slim):
    for item in wheel.infolist():
        if kept(item.filename):
            slim.writestr(item.filename, wheel.read(item.filename))
