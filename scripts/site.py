"""The hooks of mkdocs.yml. The site's pages are files of the repository under their own paths, so that their links are
checked as they stand. A public header becomes its comments with the declarations that they are about, a module of the
Python package its docstrings; any other file of text that a page links to is shown as it is."""

import fnmatch
import functools
import itertools
import os
import pathlib
import posixpath
import re

from griffe import Docstring, Extension, Function, Parameter, ParameterKind, Parameters
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = pathlib.Path(__file__).parent.parent
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/**/*.md", "*/include/rotary/*.h")
PYTHON = ("rotary", "rotary.makers", "rotary.scalings", "rotary.positions", "rotary.tools", "rotary.tools.plot",
          "rotary.torch", "rotary.jax", "rotary.cpu")
NO_PAGES = ("export.h", "experimental.h")  # macros alone
COPIED = (".css", ".svg", ".png", ".json", ".jsonl", ".html")
LANGUAGES = {".h": "cpp", ".cuh": "cpp", ".cu": "cpp", ".cpp": "cpp", ".c": "c", ".rs": "rust"}
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


class Source(File):
    """A file of the repository as the site has it."""

    def is_documentation_page(self):
        return not self.src_uri.endswith(COPIED)

    @functools.cached_property
    def dest_uri(self):
        path = re.sub(r"^docs/|^\w+/include/(?=rotary/)", "", self.src_uri)
        if path == self.src_uri and "/" in path:
            path = "source/" + path  # cli/README.md beside docs/cli.md
        if not self.is_documentation_page():
            return path
        return posixpath.join(re.sub(r"((^|/)README)?\.md$", "", path), "index.html")


def code_page(path, text):
    """The page of any other file."""
    language = LANGUAGES.get(pathlib.Path(path).suffix, "text")
    return f"---\ntitle: {path}\n---\n\n# `{path}`\n\n````{language}\n{text}````\n"


def prose(comment):
    """The Markdown of a comment's lines: those that are indented in it are code, as they stand."""
    bare = [re.sub(r"^(//|/\*| \*(?!/)) ?|\s*\*/$", "", line) for line in comment]
    texts = []
    for kind, lines in itertools.groupby(bare, lambda line: line.startswith("  ") if line.strip() else None):
        text = "\n".join(lines)
        if kind:
            texts.append(f"````text\n{text}\n````")
        elif kind is not None:
            texts.append(re.sub(r"(`[^`]+`)|[*_\[\]\\<&]", lambda found: found[1] or f"&#{ord(found[0])};", text))
    return "\n\n".join(texts)


def names_of(code):
    """The names that a piece of a header declares, in their order: of types, functions and constants."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", code, flags=re.S)
    code = re.sub(r"\benum \{\s*(\w+)", r"enum \1 {", code)  # an enum without a name has that of its first constant
    code = re.sub(r"= ?(\w|:)*\{[^{}]*\}", "= 0", code)  # a default value
    while code != (code := re.sub(r"\{[^{}]*\}", " ; ", code)):
        pass
    names = []
    for statement in code.split(";"):
        statement = re.sub(r"^template <.*>\n(requires .*\n( .*\n)*)?", "", statement.strip())
        kind = r"(?:typedef )?(?:struct|class|enum class|enum|concept|using|#define)"
        found = (re.match(kind + r" (?:\w+::)?(\w+)", statement)
                 or re.search(r"(operator[^\w\s(]+|\w+)\s*\((?!\*)", statement)
                 or re.search(r"\(\*(\w+)\)|\b([A-Za-z_]\w*)\s*(?:=|$)", statement))
        name = found and (found[1] or found[2])
        if name and name not in names:
            names.append(name)
    return names


def pieces_of(text):
    """Pairs of a comment and the code that follows it, both lists of lines, at the outermost level of a header."""
    pieces, depth, inside = [([], [])], 0, False
    for line in text.split("\n"):
        says = inside or (not depth and line.startswith(("//", "/*")))
        if (says and pieces[-1][1]) or not (depth or inside or line.strip()):
            pieces.append(([], []))
        if line.strip() or depth or inside:
            pieces[-1][0 if says else 1].append(line)
        if says:
            inside = "*/" not in line and (inside or line.startswith("/*"))
        else:
            bare = re.sub(r"""//.*|/\*.*?\*/|"(\\.|[^"\\])*"|'(\\.|[^'\\])'""", "", line)
            depth += len(re.findall(r"[{(]", bare)) - len(re.findall(r"[})]", bare))
    return [piece for piece in pieces if piece != ([], [])]


# The page of a header leaves out forward declarations, private parts and guards.
HIDDEN = re.compile(
    r"^namespace (?:rotary::)?\w+ \{\n(?:struct \w+;\n)+\}\n|^namespace detail \{(?s:.*?)^\}  // namespace.*\n"
    r"|^ private:\n(?s:.*?)(?=^\};)|^#(?!define ROTARY_VERSION).*\n|^namespace .*\n|^\}  // namespace .*\n"
    r'|^extern "C" \{\n|^\}\n+\Z', re.MULTILINE)
EXPORTED = re.compile(r"^ROTARY_(?:C_)?API [^;{]*", re.MULTILINE)


def header_page(path, text):
    """The page of a public header."""
    name = path.split("/include/")[1]
    page = [f"---\ntitle: {name}\n---", f"# {name}"]
    spaces = re.findall(r"^namespace (rotary[\w:]*) \{$", text, re.MULTILINE)
    text = HIDDEN.sub("", text)
    # Without the mark of exported functions, the lines that go on move to the left by as much.
    text = EXPORTED.sub(lambda found: re.sub(r"^ROTARY_\w+ |(?<=\n) {11}", "", found[0]), text)
    text = re.sub(r"\bROTARY_(API|EXPERIMENTAL) ", "", text)
    for number, (comment, code) in enumerate(pieces_of(text)):
        section = re.match(r"(?://|/\*) ---- (.*?)(?: -+)?(?: \*/)?$", comment[0]) if comment else None
        if section:
            page.append(f"## {section[1]}")
            comment = comment[1:]
        if code:
            page.append("### " + ", ".join(names_of("\n".join(code))).replace("_", "\\_"))
        if comment:
            page.append(prose(comment))
        if code:
            page.append("````cpp\n" + "\n".join(code) + "\n````")
        if number == 0:
            page.append(", namespace ".join([f"`#include <{name}>`", *(f"`{space}`" for space in spaces)]))
    return "\n\n".join(page) + "\n"


GROUP = re.compile(r"^( +)(\w+(?:, \w+)+):(.*(?:\n\1 +.*)*)", re.MULTILINE)


def described_apart(match):
    """Parameters that a docstring describes together, each by itself: griffe knows the type of one."""
    return "\n".join(f"{match[1]}{name}:{match[3]}" for name in match[2].split(", "))


# The title of other arguments, which griffe would take for that of a box: one of four words or more.
OTHERS = re.compile(r"^( *)(\w+(?: \w+){3,}:)$", re.MULTILINE)


def set_fields(record):
    """Gives a class of Record (python/rotary/_values.py) the signature that help() shows: its fields by name."""
    fields = [Parameter(name, annotation=field.annotation, default=field.value, kind=ParameterKind.keyword_only)
              for name, field in record.members.items()
              if field.is_attribute and field.annotation and "instance-attribute" in field.labels and name[0] != "_"]
    record.set_member("__init__", Function("__init__", parameters=Parameters(Parameter("self"), *fields)))


class Package(Extension):
    """Tells griffe the signatures and docstrings that it does not find in the package."""

    def on_package(self, *, pkg, **_):
        waiting = [pkg]
        while waiting:
            here = waiting.pop()
            waiting += [member for member in here.members.values() if not member.is_alias]
            if here.docstring:
                text = OTHERS.sub(r"\1Other Parameters: \2", here.docstring.value)
                here.docstring.value = GROUP.sub(described_apart, text)
            if here.is_class and "__init__" not in here.members:
                if "Record" in [base.name for base in here.mro()]:
                    set_fields(here)
                elif "__new__" in here.members:
                    here.set_member("__init__", Function("__init__", parameters=here.members["__new__"].parameters))
        # The functions in C++ have their docstrings there.
        files = [ROOT / f"python/src/{name}.cpp" for name in ("module", "errors")]
        sources = re.sub(r'"\s+"', "", "".join(file.read_text(encoding="utf-8") for file in files))
        said = re.findall(r'"(\w+)\(\$module.*?--\\n\\n(.*?)"\)', sources)
        said += [("Error", text) for text in re.findall(r'error_doc =\s+"(.*?)";', sources)]
        for name, text in said:
            member = pkg["_core"].members[name]
            member.docstring = Docstring(text.replace("\\n", "\n").replace('\\"', '"'), parent=member)

    def on_function(self, *, func, **_):
        """Mends what unpack_typeddict has made of words: a second list, without descriptions, and no default values."""
        if func.name == "__init__" and func.docstring and not func.docstring.value:
            func.docstring = None
        for parameter in func.parameters:
            if parameter.default == "..." and parameter.name in func.parent.members:
                parameter.default = func.parent.members[parameter.name].value


def page_of(path):
    """The Markdown of a file of the repository."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if path.endswith(".md"):
        return text
    return header_page(path, text) if fnmatch.fnmatch(path, PAGES[-1]) else code_page(path, text)


def on_files(files, config):
    """The files of the site: those of PAGES, the modules of the package, and whatever the pages link to."""
    found = Files([file for file in files if file.src_dir != config.docs_dir])  # the theme's

    def add(path, inclusion=InclusionLevel.UNDEFINED, **given):
        found.append(Source.generated(config, path, inclusion=inclusion, **given))

    for module in PYTHON:
        add(f"docs/{module}.md", content=f"---\ntitle: {module}\n---\n\n::: {module}\n")
    add("site.css", abs_src_path=str(ROOT / "scripts/site.css"))
    if os.environ.get("ROTARY_EXPLORER"):
        add("docs/explorer/rotary.html", abs_src_path=os.environ["ROTARY_EXPLORER"])
    paths = {path.relative_to(ROOT).as_posix(): InclusionLevel.UNDEFINED
             for pattern in PAGES for path in sorted(ROOT.glob(pattern)) if path.name not in NO_PAGES}
    while paths:
        path, inclusion = paths.popitem()
        if path.endswith(COPIED):
            add(path, inclusion, abs_src_path=str(ROOT / path))
            continue
        text = page_of(path)
        add(path, inclusion, content=text)
        for link in LINK.findall(text) if path.endswith(".md") else ():
            link = posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
            if (ROOT / link).is_file() and link not in paths and not found.get_file_from_path(link):
                paths[link] = InclusionLevel.NOT_IN_NAV
    return found


def on_page_markdown(markdown, page, config, files):
    """Reports and sources come behind the guides in a search. The page about the explorer leads to it where it was
    built."""
    if page.file.src_uri.startswith("docs/engines/") or page.file.dest_uri.startswith(("source/", "decisions/")):
        page.meta["search"] = {"boost": 0.2}
    if page.file.src_uri == "docs/explorer.md" and files.get_file_from_path("docs/explorer/rotary.html"):
        return re.sub(r"^(# .*\n)", r"\1\n[Open the explorer](explorer/rotary.html){ .md-button }\n", markdown, count=1)
    return markdown


def on_page_content(html, page, config, files):
    """Short code keeps to one line, where a browser would break it at a hyphen. In a table \\| is |, as on GitHub."""
    html = re.sub(r"<code>(?=[^<]*-)([^<]{1,30})</code>", r'<code class="whole">\1</code>', html)
    return re.sub(r"<td.*?</td>", lambda cell: cell[0].replace("\\|", "|"), html)
