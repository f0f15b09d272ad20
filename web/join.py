"""Joins the files of web/ into one page: join.py PROGRAM.wasm PAGE.html

The program is gzip, seven bits in each character. A page may hold every character of seven bits but NUL, CR and "<",
which stand as U+0080, U+008D and U+00BC: all in all 1.17 bytes of UTF-8 for a byte, where base64 takes 1.33.
"""

import base64
import gzip
import hashlib
import json
import pathlib
import sys

WEB = pathlib.Path(__file__).parent
GOLDEN = WEB.parent / "files/tests/golden"
SCRIPTS = """view program tensors chart models model chapters turns longer mine exact line start""".split()
MODELS = """llama-3.1-8b llama-2-7b qwen3-8b qwen2.5-7b-yarn mistral-7b-v0.3 gemma-3-27b phi-3-mini-128k deepseek-v3
    gpt-oss-20b gpt-j-6b pythia-1.4b qwen2-vl-7b""".split()


def read(name):
    return (WEB / name).read_text()


def seven_bits(data):
    text = []
    for begin in range(0, len(data), 7):
        part = data[begin:begin + 7]
        number, count = int.from_bytes(part, "big"), -(-8 * len(part) // 7)
        number <<= 7 * count - 8 * len(part)
        text += [number >> 7 * (count - 1 - i) & 127 for i in range(count)]
    return "".join(chr(code + 128 if code in (0, 13, 60) else code) for code in text)


def models():
    sources = json.loads((GOLDEN / "expected.json").read_text())["models"]
    rows = [{"name": name, "source": sources[name]["source"], "text": (GOLDEN / f"configs/{name}.json").read_text()}
            for name in MODELS]
    return json.dumps(rows).replace("<", "\\u003c")


def digest(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def main(program, page):
    style = read("style.css")
    script = "'use strict';\n" + "\n".join(read(f"{name}.js") for name in SCRIPTS)
    policy = ("default-src 'none'; base-uri 'none'; form-action 'none'; worker-src blob:; "
              f"script-src {digest(script)} 'wasm-unsafe-eval'; style-src {digest(style)}")
    parts = {"POLICY": policy, "STYLE": style, "SCRIPT": script, "MODELS": models(),
             "WORKER": read("wasi.js") + read("worker.js"),
             "PROGRAM": seven_bits(gzip.compress(pathlib.Path(program).read_bytes(), 9, mtime=0))}
    text = read("page.html")
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    pathlib.Path(page).write_bytes(text.encode())
    print(f"{page}: {len(text.encode())} bytes")


main(*sys.argv[1:])
