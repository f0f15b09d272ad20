#!/usr/bin/env python3
"""Checks nvcc's output for the kernels, their PTX and ptxas' report: rotate.cu, step.cu, shift.cu
and table.cu for sm_90.

    check_ptx.py NVCC SOURCE_DIR SCRATCH_DIR

Every thread of every kernel waits for earlier kernels before it accesses memory (launches may overlap).
Vectors of 16 bytes move heads by 16-byte loads and stores and no narrower ones; nothing multiplies and adds in one
rounding where cos and sin come from a table; none of these kernels spills or keeps an array in local memory; tables
of constants have their values. Prints what it looked at; exits 1 where a rule is broken or kernels are missing.
"""
import re
import subprocess
import sys
from pathlib import Path

# Template arguments as they are mangled: DType, then the number, then interleaved or not.
ROTATE = re.compile(r"rotate_kernelILNS_5DTypeE(\d)ELi(\d+)ELb(\d)ELb(\d)ELb(\d)E")
STEP = re.compile(r"step_kernelILNS_5DTypeE(\d)ELb(\d)ELb(\d)ELi(\d)ELb(\d)E")
STEP_ROWS = re.compile(r"step_rows_kernelILNS_5DTypeE(\d)ELi(\d+)E")
SHIFT = re.compile(r"shift_kernelILNS_5DTypeE(\d)ELi(\d+)ELb(\d)E")
FUSED = re.compile(r"\b(?:fma|mad)(?:\.rn)?(?:\.ftz)?\.f32\b")
# Loads and stores of heads, tables and caches: in the global state space, or by a generic address.
MEMORY = re.compile(r"\b(ld|st)(?!\.(?:param|shared|local|const))((?:\.[\w:]+)+)")


class Kernel:
    def __init__(self, name, body):
        self.name, self.body = name, body
        self.spills, self.stack, self.registers = None, None, None
        rotate, step, rows = ROTATE.search(name), STEP.search(name), STEP_ROWS.search(name)
        shift = SHIFT.search(name)
        self.kind = "rotate" if rotate else "step" if step else "step_rows" if rows else "shift" if shift else "other"
        sized = rotate or rows or shift
        self.bytes = int(sized.group(2)) if sized else 16 if step else 0
        self.by_table = shift is not None or (rotate is not None and rotate.group(5) == "1")

    def title(self):
        arguments = re.search(r"_kernelI(.*?)EEv", self.name)
        flags = re.findall(r"E(\d)|L[ib](\d+)", arguments.group(1)) if arguments else []
        return f"{self.kind}<{', '.join(a or b for a, b in flags)}>" if arguments else self.name

    def accesses(self, kind):
        """The modifiers of each load or store of the device's memory: '.global.nc.v4.u32', ..."""
        return [m.group(2) for m in MEMORY.finditer(self.body) if m.group(1) == kind]

    def waits_first(self):
        """Whether one griddepcontrol.wait comes before all accesses, calls and returns, and no branch passes it."""
        before, *rest = re.split(r"^\s*griddepcontrol\.wait;", self.body, flags=re.MULTILINE)
        passed = any(f"\n{label}:" not in before for label in re.findall(r"\bbra(?:\.uni)?\s+(\$\w+)", before))
        return len(rest) == 1 and not passed and not MEMORY.search(before) \
            and not re.search(r"\b(?:call|ret|exit|brx|atom|red|cp)\b", before)


def wide(modifiers):
    """Whether an access is of 16 bytes: .v4.u32, .v4.f32, .v2.u64, .v2.f64."""
    return re.search(r"\.v4\.\w32\b|\.v2\.\w64\b", modifiers) is not None


def compiled(nvcc, source, scratch, file):
    """The kernels of a .cu file, each with its PTX and what ptxas said of it."""
    name = Path(file).stem
    includes = [word for folder in ("core/include", "core", "gpu/include", "gpu") for word in ("-I", source / folder)]
    command = [nvcc, "-std=c++20", "-arch=sm_90", "--fmad=false", "-O3", *includes, "-cubin",
               "-Xptxas", "-v", "--keep", "--keep-dir", scratch, "-o", scratch / f"{name}.cubin", source / file]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=scratch, check=False)
    if result.returncode != 0:
        sys.exit(f"check_ptx: nvcc failed on {file}:\n{result.stdout}{result.stderr}")
    ptx = (scratch / f"{name}.ptx").read_text()
    if found := re.search(r"^\.(?:global|const)\b[^=\n]*\[\d+\];", ptx, re.MULTILINE):
        sys.exit(f"check_ptx: {file} has constants without values: {found.group(0)}")
    entries = re.split(r"\.entry\s+", ptx)[1:]
    kernels = {}
    for entry in entries:
        mangled = re.match(r"[\w$]+", entry).group(0)
        end = re.search(r"^}", entry, re.MULTILINE)
        kernels[mangled] = Kernel(mangled, entry[: end.end() if end else None])
    report = result.stdout + result.stderr
    current = None
    for line in report.splitlines():
        if found := re.search(r"(?:Compiling entry function '|Function properties for )([\w$]+)", line):
            current = kernels.get(found.group(1))
        if current is None:
            continue
        if found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            current.stack, stores, loads = map(int, found.groups())
            current.spills = stores + loads
        if found := re.search(r"Used (\d+) registers", line):
            current.registers = int(found.group(1))
    return list(kernels.values())


def broken_rules(kernel):
    loads, stores = kernel.accesses("ld"), kernel.accesses("st")
    if not kernel.waits_first():
        yield "not every thread waits for earlier kernels, once and before the first access of memory"
    if kernel.kind == "other":
        return
    if kernel.spills is None:
        yield "ptxas said nothing of it"
    elif kernel.spills or kernel.stack:
        yield f"{kernel.spills} bytes spilled, {kernel.stack} bytes of stack"
    if ".local" in kernel.body:
        yield "keeps an array in local memory"
    if kernel.by_table and (found := FUSED.search(kernel.body)):
        yield f"{found.group(0)}: product and sum in one rounding"
    if kernel.bytes == 16:
        if not any(wide(m) for m in loads):
            yield "no 16-byte load"
        if not any(wide(m) for m in stores):
            yield "no 16-byte store"
        narrow = [m for m in loads + stores if re.search(r"\.[bus]16\b", m) and ".v" not in m]
        if kernel.kind == "rotate" and narrow:
            yield f"{len(narrow)} accesses of 2 bytes"
        if any(".global" not in m for m in loads + stores if ".v4" in m):
            yield "vectors by a generic address"


def main():
    nvcc, source, scratch = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    scratch.mkdir(parents=True, exist_ok=True)
    kernels = [k for name in ("rotate", "step", "shift", "table")
               for k in compiled(nvcc, source, scratch, f"gpu/kernels/{name}.cu")]
    bad = 0
    for kernel in kernels:
        loads, stores = kernel.accesses("ld"), kernel.accesses("st")
        print(f"{kernel.title()}: {kernel.registers} registers, {kernel.stack} bytes of stack, "
              f"{sum(map(wide, loads))} of {len(loads)} loads and {sum(map(wide, stores))} of {len(stores)} stores "
              "of 16 bytes")
        for rule in broken_rules(kernel):
            print(f"  BROKEN: {rule}")
            bad += 1
    # 3 dtypes, 4 orders, with and without a table; 3 dtypes, 3 orders, one head or several abreast,
    # with and without norms; 3 dtypes; 3 dtypes, 2 orders.
    wanted = {("rotate", 16): 24, ("step", 16): 36, ("step_rows", 16): 3, ("shift", 16): 6}
    for (kind, width), least in wanted.items():
        found = sum(k.kind == kind and k.bytes == width for k in kernels)
        print(f"{kind} of {width} bytes: {found} kernels")
        if found < least:
            print(f"  BROKEN: fewer than {least}")
            bad += 1
    print(f"check_ptx: {len(kernels)} kernels, {bad} rules broken")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
