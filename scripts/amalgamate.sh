#!/usr/bin/env bash
# Writes the core as one file: rotary.h, rotary_c.h and rotary.cpp, which g++ -std=c++20 -O2 -c rotary.cpp compiles with
# no other flag, for all instruction sets of the machine's architecture: each set's functions carry it as an attribute.
#   scripts/amalgamate.sh DIR
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: scripts/amalgamate.sh DIR" >&2; exit 2; }
mkdir -p "$1"
exec python3 - "$(cd "$(dirname "$0")/.." && pwd)" "$1" <<'PYTHON'
import pathlib, re, sys

root, out = map(pathlib.Path, sys.argv[1:])
src, include = root / "core", root / "core/include"
licence = "// rotary, in one file by scripts/amalgamate.sh. Apache-2.0: https://www.apache.org/licenses/LICENSE-2.0\n"


def found(name, beside):
    for folder in (beside, include, src):
        if (folder / name).is_file():
            return (folder / name).resolve()
    sys.exit(f"amalgamate: no file {name}")


class Text:
    """A file that includes become part of, each once; those inside a condition, in each."""

    def __init__(self, done=()):
        self.lines, self.done = [], set(done)

    def add(self, path, names=(), kernels=None, depth=0):
        """names: the includes by macro. kernels: where the parts that each instruction set has for itself go."""
        for line in path.read_text().splitlines():
            depth += bool(re.match(r"#if", line)) - bool(re.match(r"#endif", line))
            if line.startswith("#pragma once"):
                continue
            macro = re.match(r"#include (ROTARY_\w+)", line)
            if macro:
                line = f'#include "{dict(names)[macro[1]]}"'
            local = re.match(r'#include "(.*)"', line)
            key = found(local[1], path.parent) if local else line
            if not line.startswith("#include"):
                (self if kernels is None else kernels).lines.append(line)
                continue
            own = local and kernels is not None and re.search(r"/core/cpu/(lanes|rotate|angles)/", str(key))
            holder = kernels if own else self
            if key in holder.done:
                continue
            if depth == 0 or (local and not own):
                holder.done.add(key)
            if not local:
                self.lines.append(line)
            elif own:
                guard = "ROTARY_PART_" + re.sub(r"\W", "_", key.name)
                kernels.lines += [f"#ifndef {guard}", f"#define {guard}"]
                self.add(key, names, kernels, depth)
                kernels.lines.append("#endif")
            else:
                self.add(key)

    def add_kernels(self, source, space, features, definitions, names):
        """target.cpp or angles.cpp for one instruction set, its templates in a namespace of their own."""
        part = Text()
        self.add(src / source, names, part)
        base = r"^void ROTARY_PASTE\(\w+, ROTARY_BASE_TARGET\)[^;{]*;$"  # declared before, with its own attributes
        text = re.sub(base, "", "\n".join(part.lines), flags=re.M)
        entry = text.rindex("namespace rotary::cpu {")  # the names in the rows of targets.cpp
        text = (text[:entry].replace("namespace rotary::cpu {", f"namespace rotary::cpu::{space} {{") +
                text[entry:].replace("noexcept {", f"noexcept {{\n  using namespace {space};"))
        defined = [f"#define {d.replace('=', ' ', 1)}" for d in definitions]
        gnu = ",".join(features)
        clang = ",".join(f for f in features if not f.startswith("prefer"))  # which it takes for no feature
        push, pop = [], []
        if features:
            push = ["#if defined(__clang__)",
                    f'#pragma clang attribute push(__attribute__((target("{clang}"))), apply_to = function)',
                    "#elif defined(__GNUC__)", "#pragma GCC push_options", f'#pragma GCC target("{gnu}")', "#endif"]
            pop = ["#if defined(__clang__)", "#pragma clang attribute pop", "#elif defined(__GNUC__)",
                   "#pragma GCC pop_options", "#endif"]
        macros = sorted(set(re.findall(r"^ *#define (\w+)", "\n".join([*defined, text]), re.M)))
        self.lines += [f"\n// ---- {source}: {space} ----", *defined, *push, text, *pop]
        self.lines += [f"#undef {m}" for m in macros]

    def write(self, path):
        path.write_text(licence + "\n".join(self.lines) + "\n")


class Targets:
    """The lines of core/cmake/targets.cmake."""

    def __init__(self):
        text = (root / "core/cmake/targets.cmake").read_text()
        flags = {name: value for name, value in re.findall(r"set\((\w+) (\S*-m.*)\)", text)}
        for name in flags:
            flags[name] = re.sub(r"\$\{(\w+)\}", lambda m: flags.get(m[1], ""), re.sub(r"\$<.*>-m", "-m", flags[name]))
        self.rows = {}
        for line in re.findall(r"rotary_target\(\$\{library\} ([^)]*)\)", text):
            name, *words = line.split()
            options = dict(zip(words[::2], words[1::2])) if "FLAGS" not in words else dict(
                zip(words[:words.index("FLAGS"):2], words[1:words.index("FLAGS"):2]))
            used = words[words.index("FLAGS") + 1:] if "FLAGS" in words else []
            options["features"] = [f[2:] for v in used for f in flags[v[2:-1]].split()]
            self.rows[name] = options

    def add(self, text, names):
        for name in names:
            row = self.rows[name]
            lanes = row.get("LANES", name)
            own = [f"ROTARY_TARGET_NAME={name}", f"ROTARY_LANES={lanes}"]
            if "BASE" in row:
                own.append(f"ROTARY_BASE_TARGET={row['BASE']}")
            text.add_kernels("cpu/target.cpp", f"with_{name}", row["features"], own,
                             {"ROTARY_LANES_FILE": f"cpu/lanes/{lanes}.h"})
            if "ANGLES" not in row:
                text.add_kernels("cpu/angles.cpp", f"tables_{name}", row["features"], own[:1],
                                 {"ROTARY_ANGLE_LANES": f"cpu/lanes/angles_{name}.h"})
        rows = [(n, self.rows[n].get("ANGLES", n)) for n in ["scalar", *names]]
        if names != ["scalar"]:
            text.lines.append("#define ROTARY_TARGETS " + " ".join(f"ROTARY_ROW({', '.join(r)})" for r in rows))


sources = re.findall(r"^  ([a-z_/]+\.cpp)", (src / "CMakeLists.txt").read_text(), re.M)
public = {n for s in sources for n in re.findall(r'#include "rotary/(\w+\.h)"', (src / s).read_text())}
public = sorted(public - {"rotary_c.h"})

header = Text()
header.lines.append("#pragma once")
for name in ["rotary.h", *public]:
    path = found("rotary/" + name, include)
    if path not in header.done:
        header.done.add(path)
        header.add(path)
header.write(out / "rotary.h")
(out / "rotary_c.h").write_text((include / "rotary/rotary_c.h").read_text())

whole = Text(header.done | {found("rotary/rotary_c.h", include)})
whole.done.add(src / "runtime/arithmetic.h")
whole.add(src / "runtime/arithmetic.h")
whole.lines += ['#include "rotary.h"', '#include "rotary_c.h"', "#define ROTARY_ONE_FILE"]
targets = Targets()
x86 = [n for n in targets.rows if n not in ("scalar", "portable", "neon")]
targets.add(whole, ["scalar"])
for condition, names in (("#if defined(__x86_64__) || defined(_M_X64)", x86),
                         ("#elif defined(__aarch64__) || defined(_M_ARM64)", ["neon"]), ("#else", ["portable"])):
    whole.lines.append(condition)
    targets.add(whole, names)
whole.lines.append("#endif")
for source in sorted(sources, key=lambda s: s.startswith("c/")):  # last: they use all of rotary by name
    whole.lines.append(f"\n// ---- {source} ----")
    whole.add(src / source)
whole.write(out / "rotary.cpp")
PYTHON
