#!/usr/bin/env python3
"""The interface of rotary, a line for each name, beside public_names.txt, the interface that the last release had.

    public_names.py LIBRARY SOURCE_DIR            what differs must stand in CHANGELOG.md, in the section "Unreleased"
    public_names.py LIBRARY SOURCE_DIR --write    renews public_names.txt, as a part of a release

LIBRARY is the three libraries as a shared one. It must export what a public header names (and for the libraries above
it rotary::detail and rotary::c), and for C just the functions of the two headers. The lines are, for C, prototypes,
constants and fields; for C++ the symbols; for Python the names in __all__ and their parameters; for the program its
options. A name may go, or change, only with a new minor number, once its version is released.
"""

import ast
import json
import pathlib
import re
import subprocess
import sys

library, source = sys.argv[1], pathlib.Path(sys.argv[2])
LIST = source / "packaging/tests/public_names.txt"
HEADERS = [path for part in ("core", "gpu", "files", "tools") for path in (source / part / "include").rglob("*.*h")]


def squeezed(text):
    return " ".join(text.split()).replace(" *", "* ").replace("*  ", "* ")


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def names_for_c():
    for name in ("core/include/rotary/rotary_c.h", "files/include/rotary/rotary_config_c.h"):
        text = without_comments((source / name).read_text())
        for kind, function, parameters in re.findall(r"ROTARY_C_API ([^;()]*?)(\w+)\(([^;]*)\);", text):
            yield f"c {function}: {squeezed(f'{kind}({parameters})')}"
        for constant, number in re.findall(r"^\s+(ROTARY_\w+) = (-?\d+)", text, re.MULTILINE):
            yield f"c {constant}: {number}"
        for struct, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", text, re.DOTALL):
            for place, field in enumerate(re.findall(r"[^;]+(?=;)", body)):
                kind, name, array = re.fullmatch(r"(.*?)(\w+)((?:\[\w+\])*)", squeezed(field)).groups()
                yield f"c {struct}.{name}: field {place}, {kind.strip()}{array}"


def exported():
    """Strong symbols: demangled, and as they are."""
    for options in ("-DC", "-D"):
        lines = subprocess.run(["nm", options, "--defined-only", library], capture_output=True, text=True, check=True)
        yield [line.split(" ", 2)[2] for line in lines.stdout.splitlines() if line.split()[1] in "TDRB"]


def names_for_cpp(symbols):
    for symbol in symbols:
        if symbol.startswith("rotary::") and not symbol.startswith(("rotary::detail::", "rotary::c::")):
            yield f"c++ {re.split('[(<[]', symbol)[0].replace('~', '')}: {symbol}"


def wrong_exports(symbols, functions):
    headers = "".join(without_comments(path.read_text()) for path in HEADERS)
    named = set(re.findall(r"\w+", headers))
    for line in names_for_cpp(symbols):
        name = line.split(": ")[0].split(":")[-1]
        if "operator" not in name and name not in named or re.search(r"rotary::(files|cpu|scalings)::", line):
            yield f"exported, but in no public header: {line}"
    declared = {line.split(":")[0][2:] for line in names_for_c() if "(" in line}
    for name in sorted(declared ^ {symbol for symbol in functions if symbol.startswith("rotary_")}):
        yield f"for C, declared or exported, but not both: {name}"


def defined(package):
    """The functions and classes of all files of the package by their names."""
    found = {}
    for path in [*sorted(package.rglob("*.py")), package / "_core.pyi"]:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[path.stem if path.stem != "__init__" else path.parent.name, node.name] = node
                found.setdefault(node.name, node)
    return found


def parameters(node):
    a = node.args
    plain = [argument.arg for argument in a.posonlyargs + a.args]
    for place, default in enumerate(reversed(a.defaults), 1):
        plain[-place] += f"={ast.unparse(default)}"
    only = [k.arg + (f"={ast.unparse(d)}" if d else "") for k, d in zip(a.kwonlyargs, a.kw_defaults)]
    rest = [f"*{a.vararg.arg}"] if a.vararg else ["*"] if only else []
    return f"({', '.join([*plain, *rest, *only, *([f'**{a.kwarg.arg}'] if a.kwarg else [])])})"


def names_for_python():
    package = source / "python/rotary"
    found = defined(package)
    for path in (*sorted(package.glob("[!_]*.py")), package / "__init__.py", package / "tools/__init__.py"):
        module = path.stem if path.stem != "__init__" else path.parent.name
        full = "rotary" if module == "rotary" else f"rotary.{module}"
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                for name in eval(compile(ast.Expression(node.value), str(path), "eval"), {}):
                    yield from python_lines(f"{full}.{name}", found.get((module, name), found.get(name)))


def python_lines(name, node):
    if isinstance(node, ast.FunctionDef):
        yield f"python {name}: {parameters(node)}"
        return
    yield f"python {name}:"
    for member in node.body if node else ():
        if isinstance(member, ast.AnnAssign) and not member.target.id.startswith("_"):
            yield f"python {name}.{member.target.id}:"
        if isinstance(member, ast.FunctionDef) and (member.name == "__init__" or not member.name.startswith("_")):
            yield f"python {name}.{member.name}: {parameters(member)}"


def names_for_the_program():
    data = json.loads((source / "cli/data/commands.json").read_text())
    for command, about in data["commands"].items():
        options = {**about.get("options", {}), **(data["rope_options"] if about.get("rope_options") else {})}
        for names in options:
            for name in names.split(","):
                yield f"program {command} {name}:"


def main():
    symbols, functions = exported()
    wrong = list(wrong_exports(symbols, functions))
    version = re.search(r'ROTARY_VERSION "(.*)"', (source / "core/include/rotary/version.h").read_text())[1]
    for recipe in ("conda/recipe.yaml", "homebrew/rotary.rb", "vcpkg/ports/rotary/vcpkg.json"):
        if version not in (source / "packaging" / recipe).read_text():
            wrong.append(f"packaging/{recipe} must name the version {version}")
    now = sorted({*names_for_c(), *names_for_cpp(symbols), *names_for_python(), *names_for_the_program()})
    if sys.argv[3:] == ["--write"]:
        LIST.write_text("\n".join([f"rotary {version}", *now, ""]))
    released, *before = LIST.read_text().splitlines()
    released = released.split()[1]
    changelog = (source / "CHANGELOG.md").read_text()
    unreleased = re.search(r"^## Unreleased(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    told = set(re.findall(r"[\w-]+", unreleased[1] if unreleased else ""))
    names = [line.split(": ")[0].rstrip(":") for line in sorted(set(now) ^ set(before))]
    wrong += [f"changed since {released}, but not in the section Unreleased of CHANGELOG.md: {name}"
              for name in dict.fromkeys(names) if re.findall(r"[\w-]+", name)[-1] not in told]
    minor = [text.rsplit(".", 1)[0] for text in (version, released)]
    if re.search(rf"^## {re.escape(released)}\b", changelog, re.MULTILINE) and minor[0] == minor[1]:
        kept = {promised(line) for line in now}
        wrong += [f"gone or changed since {released}, which needs a new minor number: {line}"
                  for line in before if promised(line) not in kept]
    if wrong:
        wrong.append(f"A name that CHANGELOG.md need not tell is put on the list by {' '.join(sys.argv[:3])} --write")
    print("\n".join(wrong) or f"{len(now)} public names, {len(names)} changed since {released}")
    return bool(wrong)


def promised(line):
    """The part of a line that may not change: the whole for C and C++, else the name, as parameters may be added."""
    return line if line.startswith("c") else line.split(": ")[0].rstrip(":")


sys.exit(main())
