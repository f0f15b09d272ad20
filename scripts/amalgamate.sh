#!/usr/bin/env bash
# Writes rotary as one file: DIR/rotary.cpp, the core, beside its public headers in DIR/rotary. One command compiles it,
# for all instruction sets of the machine's architecture: each set's functions carry it as an attribute.
#   scripts/amalgamate.sh DIR [--config]
# --config: DIR/rotary_config.cpp too, the library rotary_files with its headers.
set -euo pipefail
case $#,${1:--},${2:---config} in
  [12],[!-]*,--config) ;;
  *) echo "usage: scripts/amalgamate.sh DIR [--config]" >&2; exit 2 ;;
esac
exec python3 - "$(cd "$(dirname "$0")/.." && pwd)" "$@" <<'PYTHON'
import pathlib, re, shutil, sys

root, out = map(pathlib.Path, sys.argv[1:3])
src, files = root / "core", root / "files"


def found(name, beside):
    for folder in (beside, src, files):
        if (folder / name).is_file():
            return (folder / name).resolve()
    sys.exit(f"amalgamate: no file {name}")


class Text:
    """A file that includes become part of, each once; those inside a condition, in each. Public headers stay files."""

    def __init__(self):
        self.lines, self.done = [], set()

    def add(self, path, names=(), kernels=None, depth=0):
        """names: the includes by macro. kernels: where the parts that each instruction set has for itself go."""
        for line in path.read_text().splitlines():
            depth += bool(re.match(r"#if", line)) - bool(re.match(r"#endif", line))
            if line.startswith("#pragma once"):
                continue
            macro = re.match(r"#include (ROTARY_\w+)", line)
            if macro:
                line = f'#include "{dict(names)[macro[1]]}"'
            local = re.match(r'#include "(?!rotary/)(.*)"', line)
            key = found(local[1], path.parent) if local else line
            if not line.startswith("#include"):
                (self if kernels is None else kernels).lines.append(line)
                continue
            own = local and kernels is not None and re.search(r"/core/cpu/(lanes/(?!x86_)|rotate/|angles/)", str(key))
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

    def add_sources(self, folder):
        """Those that the folder's CMakeLists.txt lists; the ones in C last, since they use all of rotary by name."""
        sources = re.findall(r"^  ([a-z_/]+\.cpp)", (folder / "CMakeLists.txt").read_text(), re.M)
        for source in sorted(sources, key=lambda s: bool(re.search(r"^c/|_c\.cpp$", s))):
            self.lines.append(f"\n// ---- {source} ----")
            self.add(folder / source)

    def write(self, name, *about):
        text = ["rotary in one file, by scripts/amalgamate.sh. Apache-2.0: https://www.apache.org/licenses/LICENSE-2.0",
                f"g++ -std=c++20 -O2 -I . -c {name}", *about]
        (out / name).write_text("\n".join([f"// {line}" for line in text] + ["", *self.lines, ""]))


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


def begin(folder):
    """Copies the public headers. The text begins with what refuses flags that change results."""
    shutil.copytree(folder / "include/rotary", out / "rotary", dirs_exist_ok=True)
    whole = Text()
    whole.done.add(src / "runtime/arithmetic.h")
    whole.add(src / "runtime/arithmetic.h")
    whole.lines += ["#ifdef __clang__  // It does not warn of these in headers, where they were.",
                    '#pragma clang diagnostic ignored "-Wunused-const-variable"',
                    '#pragma clang diagnostic ignored "-Wunneeded-internal-declaration"', "#endif"]
    return whole


def write_core():
    whole = begin(src)
    whole.lines.append("#define ROTARY_ONE_FILE")
    targets = Targets()
    x86 = [n for n in targets.rows if n not in ("scalar", "portable", "neon")]
    targets.add(whole, ["scalar"])
    for condition, names in (("#if defined(__x86_64__) || defined(_M_X64)", x86),
                             ("#elif defined(__aarch64__) || defined(_M_ARM64)", ["neon"]), ("#else", ["portable"])):
        whole.lines.append(condition)
        targets.add(whole, names)
    whole.lines.append("#endif")
    whole.add_sources(src)
    whole.write("rotary.cpp")


def write_config():
    whole = begin(files)
    whole.add_sources(files)
    for condition, system in ("#ifdef _WIN32", "windows"), ("#else", "posix"):
        whole.lines.append(condition)
        whole.add(files / f"text/descriptors_{system}.cpp", depth=1)
    models = ",".join(map(str, (files / "models/models.json").read_text("ascii").encode()))
    whole.lines += ["#endif", "\n// ---- models/models.json ----", "namespace rotary::embedded {",
                    "static constexpr char bytes[] = {", re.sub(r"(.{100,}?,)", r"\1\n", models), "};",
                    "std::string_view models() noexcept { return {bytes, sizeof bytes}; }", "}"]
    whole.write("rotary_config.cpp", "Reads config.json, params.json, GGUF, safetensors and npy. Link rotary.cpp.",
                "Needs <nlohmann/json.hpp>, the header of nlohmann-json 3.10 or later: Debian's nlohmann-json3-dev.")


write_core()
if sys.argv[3:]:
    write_config()
PYTHON
