"""The page in a headless Chromium, beside the native program: page_test.py PAGE PROGRAM [--shots DIR]

Prints a line for each test that fails, and at the end "N passed, N failed, 0 skipped".
"""

import itertools
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import traceback
import urllib.parse

import axe_playwright_python
from browser import Page, packed
from selenium.webdriver.common.keys import Keys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = ROOT / "files/tests/golden/configs"
AXE = (pathlib.Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
PANELS = ["model", "turns", "longer", "mine", "exact", "line"]
BYTES_AT_MOST = 1_600_000
page_path, program = pathlib.Path(sys.argv[1]), str(pathlib.Path(sys.argv[2]).resolve())
folder = pathlib.Path(tempfile.mkdtemp(prefix="rotary-web-"))


def native(*words, files=None):
    """The status, output and error of the native program, in a folder with these files."""
    for name, data in (files or {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    answer = subprocess.run([program, *words], cwd=folder, capture_output=True)
    return answer.returncode, answer.stdout.decode(), answer.stderr.decode()


def equal(found, wanted, what=""):
    if found != wanted:
        raise AssertionError(f"{what}: {str(found)[:300]!r} instead of {str(wanted)[:300]!r}")


def config_texts(count):
    paths = sorted(CONFIGS.glob("*.json"))
    step = len(paths) / count
    return {paths[int(i * step)].name: paths[int(i * step)].read_text() for i in range(count)}


def npy(values, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}".ljust(117) + "\n"
    data = struct.pack(f"<{len(values)}f", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def rows_of_npy(name, size):
    data = (folder / name).read_bytes()
    values = struct.unpack("<%df" % ((len(data) - 128) // 4), data[128:])  # the header of a small shape takes 128 bytes
    return [values[i:i + size] for i in range(0, len(values), size)]


def some_vectors(tokens, heads, size):
    drawn, values = 1, []
    for _ in range(tokens * heads * size):
        drawn = drawn * 48271 % 2147483647
        values.append(drawn / 1073741824 - 1)
    return npy(values, [tokens, heads, size])


def rows_of(page, selector):
    """The text of every cell of a table."""
    return page.js("""return [...document.querySelectorAll(arguments[0] + ' tbody tr')].map(
        row => [...row.children].map(cell => cell.textContent))""", selector)


# ---- the numbers are the native program's ----

def test_size(page):
    size = page_path.stat().st_size
    assert size <= BYTES_AT_MOST, f"the page has {size} bytes, {BYTES_AT_MOST} are allowed"


def test_json_of_40_configs(page):
    for name, text in config_texts(40).items():
        plan = ["extend", name, "--length", "1048576", "--json"]
        for words in (["inspect", name, "--json"], ["inspect", name], plan):
            status, output, error = native(*words, files={name: text})
            answer = page.rotary(words, {name: text})
            equal((answer["status"], answer["output"], answer["error"]), (status, output, error), " ".join(words))


def test_shown_numbers_of_40_configs(page):
    """Each pair in the table: inv_freq, wavelength and stretch are the native numbers, to the last digit."""
    for name, text in config_texts(40).items():
        ropes = json.loads(native("inspect", name, "--json", files={name: text})[1])["ropes"]
        page.go("model?" + query(model=packed(name, text)))
        shown = rows_of(page, "#model-answer details table")
        wanted = [(rope["inv_freq"][i], rope["wavelength"][i], rope["stretch"][i], rope["effect"][i])
                  for rope in ropes if rope["wavelength"] for i in range(len(rope["wavelength"]))]
        found = [(number(row[1]), number(row[2]), number(row[3]), row[4]) for row in shown]
        equal(found, wanted, name)


def query(**values):
    """Values of the state as the address has them."""
    return urllib.parse.urlencode(values)


def number(text):
    return None if text == "-" else float(text.replace("\u202f", ""))


def test_rotations_have_the_native_bits(page):
    for name in ("llama-3.1-8b", "gpt-j-6b", "phi-3-mini-128k", "deepseek-v3", "qwen2.5-7b-yarn"):
        text = (CONFIGS / f"{name}.json").read_text()
        words = ["table", "c.json", "--form", "joined", "--positions", "0:64,1000000,1099511627776",
                 "--output", "t.npy"]
        equal(native(*words, files={"c.json": text})[0], 0, name)
        answer = page.rotary(words, {"c.json": text})
        equal(bytes(answer["files"]["t.npy"]), (folder / "t.npy").read_bytes(), name)


def choose_chapter(page, chapter):
    page.open("turns?chapter=1")
    page.js("document.getElementById('chapter-select').value = arguments[0];"
            "document.getElementById('chapter-select').dispatchEvent(new Event('change'))", str(chapter))
    page.settle()


def test_chapters_have_their_scores(page):
    """The scores that docs/explain states, at the figures of its chapters."""
    stated = ((2, "-7.355460", None), (3, "1.904595", None), (7, "9.8846", "-4.1445"), (8, "0.541587", None))
    for chapter, score, wrong in stated:
        choose_chapter(page, chapter)
        found = page.text("#score-here")
        assert abs(float(found) - float(score)) < 6e-5, f"chapter {chapter}: {found} instead of {score}"
        if wrong:
            assert abs(float(page.text("#score-wrong")) - float(wrong)) < 6e-5, page.text("#score-wrong")


def test_a_rope_with_frequencies_of_each_head(page):
    record = json.loads((ROOT / "files/tests/golden/sweep/LTX2VideoTransformer3DModel+split.json").read_text())
    model = packed("c.json", json.dumps(record["config"]))
    page.go("turns?" + query(model=model, of=1, vectors="equal", key=3, distance=5))
    equal(page.text(".failure"), None)
    native("table", "c.json", "--rope", "1", "--positions", "3,8", "--output", "t.safetensors",
           files={"c.json": json.dumps(record["config"])})
    data = (folder / "t.safetensors").read_bytes()
    size = 8 + struct.unpack("<Q", data[:8])[0]
    cos, sin = (struct.unpack("<64f", data[size + at:size + at + 256]) for at in (0, 256))  # 2 tokens, 4 heads, 8 pairs
    score = sum(one[i] * one[32 + i] for one in (cos, sin) for i in range(8)) / 8  # head 0, all numbers equal
    equal(page.js("return document.querySelectorAll('#clocks input').length"), 8)
    assert abs(float(page.text("#score-here")) - score) < 2e-6, (page.text("#score-here"), score)


def cells_are(page, values):
    """The map has a cell for each value, as strong as it, and of the colour of its sign."""
    found = page.js("""const canvas = document.querySelector('#score canvas');
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return Array.from({ length: data.length / 4 },
          (_, i) => data[4 * i + 3] * (data[4 * i] > data[4 * i + 2] ? -1 : 1))""")
    most = max(map(abs, values))
    equal(len(found), len(values))
    off = [(i, cell, value) for i, (cell, value) in enumerate(zip(found, values)) if abs(cell - 255 * value / most) > 1]
    equal(off[:3], [])


def test_the_table_of_chapter_4_is_native(page):
    choose_chapter(page, 4)
    for page_has, words, pairs in (("", ["--base", "10000", "--head-dim", "8", "--pairing", "interleaved"], 4),
                                   ("of=0&key=100000&distance=37&pair=20&model=qwen2.5-7b-yarn", ["c.json"], 64)):
        if page_has:
            page.go("turns?chapter=4&picture=table&vectors=equal&" + page_has)
        key, query, pair = (100000, 100037, 20) if page_has else (0, 10, 0)
        native("table", *words, "--form", "joined", "--positions", f"{key}:{key + 128},{query}", "--output", "t.npy",
               files={"c.json": (CONFIGS / "qwen2.5-7b-yarn.json").read_text()})
        rows = rows_of_npy("t.npy", 2 * pairs)
        equal((page.text("#cos-here"), page.text("#sin-here")),
              (f"{rows[-1][pair]:.6f}", f"{rows[-1][pairs + pair]:.6f}"), page_has)
        cells_are(page, [row[pair] for pair in range(pairs) for row in rows[:-1]])


def test_the_patches_of_chapter_13_are_native(page):
    """The scores of an image with two axes, and of one whose patches are numbered."""
    choose_chapter(page, 13)
    plain = ["--base", "100", "--pairing", "half"]
    for page_has, words, where, size in (("", ["c.json", "--rope", "1"], "image:33x33", 80),
                                         ("of=plain&base=100&dim=64&pairing=half&below=1", plain, "0:1089", 64)):
        if page_has:
            page.go("turns?chapter=13&picture=patches&vectors=equal&" + page_has)
        equal(native("apply", *words, "--layout", "thd", "--input", "x.npy", "--output", "y.npy", "--positions", where,
                     files={"c.json": (CONFIGS / "qwen2-vl-7b.json").read_text(),
                            "x.npy": npy([size ** -0.5] * (1089 * size), [1089, 1, size])})[0], 0)
        rows = rows_of_npy("y.npy", size)
        scores = [sum(one * other for one, other in zip(rows[544], row)) for row in rows]
        assert abs(float(page.text("#score-here")) - scores[544 + 1 + 33 * bool(page_has)]) < 2e-6
        cells_are(page, [score - max(0, min(scores)) for score in scores])


def test_plans_write_the_native_config(page):
    lengths = {"llama-3.1-8b": 262144, "qwen3-8b": 131072, "gemma-3-27b": 262144, "pythia-1.4b": 8192}
    for name, length in lengths.items():
        text, target = (CONFIGS / f"{name}.json").read_text(), folder / "plan" / name
        page.go("longer?" + query(model=packed("c.json", text), context=length))
        words = ["extend", "c.json", "--length", str(length)]
        method = json.loads(native(*words, "--json", files={"c.json": text})[1])["recommended"]
        equal(native(*words, "--scaling", method, "--output", str(target))[0], 0, name)
        shown = page.js("return document.getElementById('new-config').textContent")
        equal(shown, (target / "config.json").read_text(), name)


def test_a_rope_is_chosen(page):
    """The plan for one of several ropes is that of --rope, and a refusal is the command's."""
    text, shown = (CONFIGS / "qwen2.5-omni-7b.json").read_text(), {}
    for rope in ("0", "1", "2"):
        page.go("longer?" + query(model=packed("c.json", text), context=262144, rope=rope))
        assert page.js("return document.getElementById('rope').checkVisibility()"), "no choice of a rope"
        target = folder / "plan" / f"rope{rope}"
        status, _, error = native("extend", "c.json", "--length", "262144", "--rope", rope, "--output", str(target),
                                  files={"c.json": text})
        shown[rope] = page.js("return document.querySelector('#new-config, #longer-answer .failure').textContent")
        wanted = (target / "config.json").read_text() if status == 0 else error.removeprefix("error: ")
        equal(shown[rope].strip(), wanted.strip(), rope)
    assert shown["0"] != shown["2"] and "[extend]" in shown["1"], shown


def test_errors_by_position_are_native(page):
    text = (CONFIGS / "gemma-3-27b.json").read_text()
    study = json.loads(native("accuracy", "c.json", "--rope", "1", "--json", files={"c.json": text})[1])
    page.go("exact?model=gemma-3-27b&rope=1")
    shown = rows_of(page, "#exact-answer table")
    equal(len(shown), len(study["decades"]))
    for i, row in enumerate(shown):
        for way, cell in zip(study["ways"], row[1:]):
            wanted = way["cos_sin"][i]  # shown with three digits
            assert cell == "-" if wanted is None else abs(float(cell) - wanted) <= 0.006 * wanted, (row, wanted)


# ---- check ----

def test_check_is_native(page):
    text, before = (CONFIGS / "llama-3.1-8b.json").read_text(), some_vectors(32, 8, 128)
    files = {"c.json": text, "q.npy": before}
    for mistake in ([], ["--base", "10000"], ["--scaling", "none"], ["--pairing", "interleaved"],
                    ["--positions", "1:33"]):
        native("apply", "c.json", *mistake, "--input", "q.npy", "--output", "e.npy", files=files)
        words = ["check", "c.json", "--before", "q.npy", "--after", "e.npy", "--json"]
        status, output, _ = native(*words)
        answer = page.rotary(words, {**files, "e.npy": (folder / "e.npy").read_bytes()})
        equal(answer["status"], status, mistake)
        found, wanted = json.loads(answer["output"]), json.loads(output)
        for key in ("verdict", "sentence", "cause", "first", "layout", "max_error"):
            equal(found[key], wanted[key], f"{mistake} {key}")


def test_check_in_the_panel(page):
    text, before = (CONFIGS / "llama-2-7b.json").read_text(), some_vectors(16, 4, 128)
    files = {"c.json": text, "q.npy": before}
    native("apply", "c.json", "--base", "500000", "--input", "q.npy", "--output", "e.npy", files=files)
    page.go("mine?model=llama-2-7b")
    for field, name in (("before", "q.npy"), ("after", "e.npy")):
        page.driver.find_element("id", field).send_keys(str(folder / name))
    page.driver.find_element("id", "check").click()
    page.wait("return document.querySelector('#mine-answer canvas') !== null")
    assert "differs" in page.text("#verdict") and "base 500000" in page.text("#mine-answer")
    page.js("takeTensors(['engine.npy', 'q_in.npy'].map(name => new File([], name)))")
    equal(page.js("return document.getElementById('before').files[0].name"), "q_in.npy")
    page.js("takeTensors(['q.npy', 'engine.npy'].map(name => new File([], name)))")
    equal(page.js("return document.getElementById('before').files[0].name"), "q.npy")
    equal(page.js("return grouped('12345.67891')"), "12\u202f345.67891")
    many = page.js("""const shape = [2000, 64, 2], after = new Float32Array(256000).fill(3);
        const answer = { tensor: 'q', layout: 'thd', tolerance: 1 };
        return wrongPicture(shape, new Float32Array(256000), after, answer)[1].textContent""")
    assert "128000 of 128000" in many and "by up to 3;" in many, many


def test_an_npy_of_any_version_and_order(page):
    header = "{'descr': '<f4', 'fortran_order': %s, 'shape': (2,), }\n"
    for version, order in itertools.product((1, 2), (False, True)):
        text = (header % order).encode()
        file = b"\x93NUMPY" + bytes([version, 0]) + len(text).to_bytes(2 * version, "little") + text + b"abcdefgh"
        read = page.js("const one = tensorOfNpy(new Uint8Array(arguments[0])); "
                       "return [one.dtype ?? null, one.shape, [...one.bytes]]", list(file))
        equal(read, [None if order else "F32", [2], list(b"abcdefgh")], f"{version} {order}")


def test_memory_returns(page):
    """A heavy question has a worker of its own, which ends with it; and it can be stopped."""
    text, before = (CONFIGS / "llama-3.1-8b.json").read_text(), some_vectors(64, 8, 128)
    words = ["check", "c.json", "--before", "q.npy", "--after", "q.npy"]
    equal(page.rotary(words, {"c.json": text, "q.npy": before})["status"], 1)
    page.wait_for(lambda: page.workers() == 1)
    (folder / "large.npy").write_bytes(npy([], [2048, 32, 128]) + before[128:128 + 4 * 65536] * 128)
    page.go("mine?model=llama-3.1-8b")
    for field in ("before", "after"):
        page.driver.find_element("id", field).send_keys(str(folder / "large.npy"))
    page.driver.find_element("id", "check").click()
    page.wait("return !document.getElementById('stop').disabled")
    page.driver.find_element("id", "stop").click()
    page.wait("return document.getElementById('mine-answer').innerText.includes('stopped')")
    page.wait("return document.getElementById('stop').disabled")
    page.wait_for(lambda: page.workers() == 1)


# ---- bad inputs ----

def bad_inputs(count):
    """Configs with one change each: cut, a value of another kind, a key misspelt, characters that are no JSON."""
    texts = list(config_texts(20).items())
    others = ['"x"', "-1", "null", "1e400", "[]", "{}", "true", "0", "\u0001", '"\ud7ff"']
    for i in range(count):
        name, text = texts[i % len(texts)]
        way, rest = divmod(i // len(texts), 3)
        numbers = [match.span(1) for match in re.finditer(r': (-?[0-9][0-9.eE+-]*|"[^"]*")', text)]
        begin, end = numbers[(7 * i + rest) % len(numbers)]
        if way == 0:
            yield name, text[:(i * 37) % len(text)]
        elif way == 1:
            yield name, text[:begin] + others[i % len(others)] + text[end:]
        elif way == 2:
            yield name, re.sub(r'"rope_\w+"', lambda match: match[0][:-1] + 'x"', text)
        else:
            yield name, text[:begin] + "\x00<script>&" + text[end:]


def test_200_bad_inputs(page):
    refused = 0
    for name, text in bad_inputs(200):
        status, output, error = native("inspect", name, "--json", files={name: text})
        answer = page.rotary(["inspect", name, "--json"], {name: text})
        equal((answer["status"], answer["output"], answer["error"]), (status, output, error), text[:100])
        page.go("model?" + query(model=packed(name, text)))
        shown = page.text("#model-answer .failure")
        equal(shown is not None, status != 0, text[:100])
        refused += status != 0
        if status != 0:
            message = json.loads(error.splitlines()[-1])["error"]["message"]
            equal(" ".join(shown.split(": ", 1)[1].split()), " ".join(message.split()), name)
    assert refused > 100, f"only {refused} of the inputs are bad"
    page.go("model")
    assert page.text("#model-answer .failure") is None and "llama" in page.text("#model-answer"), "broken afterwards"


def test_files_and_words(page):
    """Unknown commands, no words, files that are none: a sentence and a status, never an exception."""
    files = {"a.gguf": b"GGUF\3\0\0\0", "a.npy": b"\x93NUMPY", "a.json": "{}"}
    for words in ([], ["nosuch"], ["bench"], ["inspect", "none.json"], ["inspect"], ["inspect", "a.gguf"],
                  ["inspect", "a.npy"], ["check", "a.json", "--before", "a.npy", "--after", "a.npy"]):
        answer = page.rotary(words, files)
        assert answer.get("status") in (1, 2) and "error: " in answer["error"], (words, answer)
    text = (CONFIGS / "qwen3-8b.json").read_text()
    statuses = [page.rotary(["inspect", "c.json"], given)["status"] for given in ({"c.json": text}, {})]
    equal(statuses, [0, 1], "files of an earlier command")
    equal(page.rotary(["explain", "turn"])["output"], (ROOT / "docs/explain/01-turn.md").read_text())


def test_a_folder_is_converted(page):
    """Folders are read, made and renamed."""
    config = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_hidden_layers": 1}
    names = [f"model.layers.0.self_attn.{name}_proj.weight" for name in "qk"]
    header = json.dumps({name: {"dtype": "F32", "shape": [32, 32], "data_offsets": [i * 4096, i * 4096 + 4096]}
                         for i, name in enumerate(names)}).encode()
    weights = struct.pack("<Q", len(header)) + header + 2 * some_vectors(8, 4, 32)[128:]
    files = {"llama/config.json": json.dumps(config), "llama/model.safetensors": weights, "llama/a.txt": "kept"}
    words = ["convert", "llama", "--to", "interleaved", "--output", "out", "--json"]
    status, output, _ = native(*words, files=files)
    answer = page.rotary(words, files)
    equal((answer["status"], answer["output"]), (status, output))
    made = {f"out/{path.name}": path.read_bytes() for path in (folder / "out").iterdir()}
    equal({name: bytes(data) for name, data in answer["files"].items()}, made)
    assert status == 0 and len(made) == 3, output


def test_command_line(page):
    page.go("line?" + query(words="table llama-3.1-8b.json --positions '0:4' --output \"my table.safetensors\""))
    assert "exit status 0" in page.text("#line-state") and "my table.safetensors" in page.text("#line-made")
    page.driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
    page.driver.find_element("link text", page.text("#line-made a")).click()
    page.wait_for(lambda: (folder / "my table.safetensors").exists(), 30)
    text = (CONFIGS / "llama-3.1-8b.json").read_text()
    native("table", "llama-3.1-8b.json", "--positions", "0:4", "--output", "t.safetensors",
           files={"llama-3.1-8b.json": text})
    equal((folder / "my table.safetensors").read_bytes(), (folder / "t.safetensors").read_bytes())
    page.go("line?" + query(words="inspect 'my table.safetensors'"))
    assert "query_scale" in page.text("#line-answer"), page.text("#line-answer")
    page.go("line?" + query(model=packed("c.json", text)))
    page.js("keepOpened([new File([arguments[0]], 'c.json')])", text.replace("500000.0", "600000.0"))
    page.js("change({ words: 'inspect c.json' })")
    page.wait("return document.getElementById('line-answer').innerText.includes('600000')")
    page.js("takeFile('model', new File([arguments[0]], 'c.json'))", text.replace("500000.0", "700000.0"))
    page.wait("return document.getElementById('line-made').innerText.includes('c.json') === false")
    page.js("change({ words: 'inspect ./c.json' })")
    page.wait("return document.getElementById('line-answer').innerText.includes('700000')")


# ---- the page itself ----

def test_gguf_is_read_from_its_header(page):
    gguf = sorted((ROOT / "files/tests/golden/gguf").glob("*.gguf"))[0]
    page.go("model")
    page.driver.find_element("id", "model-file").send_keys(str(gguf))
    page.settle()
    assert page.text("#model-answer .failure") is None and "rope" in page.text("#model-answer").lower()
    assert "header" in page.text("#text-label")


def test_dropped_files(page):
    page.open("model")
    drop = """const data = new DataTransfer();
        for (const [name, text] of arguments[0]) data.items.add(new File([text], name));
        document.dispatchEvent(new DragEvent('drop', { dataTransfer: data, cancelable: true }));"""
    files = [[f"{name}.json", (CONFIGS / f"{name}.json").read_text()] for name in ("gpt-neox-20b", "falcon-7b")]
    page.js("document.getElementById('config').focus()")
    page.js(drop, files)
    page.wait("return document.querySelector('tr:has(.sign)') !== null")
    shown = page.text("#model-answer")
    assert "gpt_neox" in shown and "falcon" in shown
    equal(page.js("return document.getElementById('config').value"), files[0][1])
    page.wait("return location.hash.includes('beside=')")
    page.open(page.js("return location.hash.slice(1)"))
    equal(page.text("#model-answer"), shown)


def test_two_models_side_by_side(page):
    page.go("model?beside=qwen3-8b")
    shown = page.js("return [...document.querySelectorAll('tr:has(.sign) th')].map(one => one.firstChild.textContent)")
    assert {"layers", "base", "scaling", "context"} <= set(shown) and "heads" not in shown, shown


def test_an_error_points_to_its_line(page):
    text = (CONFIGS / "llama-3.1-8b.json").read_text().replace('"factor": 8.0', '"factor": "x"')
    page.go("model?" + query(model=packed("c.json", text)))
    line = text[:text.index('"factor"')].count("\n") + 1
    equal(page.text("#line-numbers .wrong").strip(), str(line))
    bad, good = packed("bad.json", text), packed("c.json", text.replace('"x"', "8.0"))
    page.go("model?" + query(model=good, beside=bad))  # the text that is shown is right
    assert "bad.json" in page.text("#model-answer .failure") and page.text("#line-numbers .wrong") is None


def test_the_address_is_the_state(page):
    page.go("turns?chapter=7&of=0&model=gpt-j-6b&key=50&distance=7&wrong=offset&vectors=equal")
    score = page.text("#score-here")
    page.js("""const one = document.getElementById('distance');
        one.value = '9';
        one.dispatchEvent(new Event('change', { bubbles: true }));""")
    page.wait("return location.hash.includes('distance=9')")
    page.settle()
    other = page.text("#score-here")
    assert score != other
    page.open(page.js("return location.hash.slice(1)"))
    equal(page.text("#score-here"), other)


def test_keyboard(page):
    page.open("model")
    reached = []
    for _ in range(12):
        page.press(Keys.TAB)
        reached.append(page.js("const one = document.activeElement; return one.id || one.textContent.slice(0, 30)"))
    wanted = ["A model", "It turns", "A longer context", "Is mine right?", "How exact?", "Command line", "model-select",
              "model-file", "beside-select", "beside-file", "config"]
    equal(reached[:11], wanted)
    page.open("turns")
    page.js("document.getElementById('distance-slider').focus()")
    page.press(Keys.ARROW_RIGHT)
    page.settle()
    equal(page.js("return document.getElementById('distance').value"), "2")
    page.go("turns?of=0&vectors=equal")
    page.js("document.querySelector('#clocks :checked').focus()")
    page.press(Keys.ARROW_RIGHT)
    page.settle()
    equal(page.text("#pair-title"), "Pair 1 of q, three ways")


def test_axe_finds_nothing(page):
    for dark in (False, True):
        page.dark(dark)
        for panel in PANELS:
            page.go(panel)
            page.js(AXE)
            found = page.driver.execute_async_script("axe.run(document).then(r => arguments[0](r.violations))")
            equal([(one["id"], [node["html"][:80] for node in one["nodes"]][:3]) for one in found], [], panel)
    page.dark(False)


def test_a_phone_needs_no_scrolling_sideways(page):
    page.resize(360, 740)
    for panel in PANELS:
        page.go(panel)
        equal(page.js("return document.documentElement.scrollWidth"), 360, panel)
    page.resize(1280)


def test_ready_soon(page):
    page.open("model")
    paint = page.js("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
    assert paint < 2000, f"the first picture after {paint} ms"  # 0.5 s on a machine that does nothing else


def test_silent(page):
    equal(page.messages(), [], "console")
    equal(page.requests(), [], "requests")


def make_shots(page, target):
    from PIL import Image  # which the tests do not need
    target.mkdir(parents=True, exist_ok=True)
    states = {"model": "model", "two": "model?beside=qwen3-8b", "turns": "turns", "scaling": "turns?" + query(
        chapter=11, of=0, vectors="equal", distance=16384, reach=131072, wrong="scaling"), "longer": "longer",
        "angles": "turns?chapter=4&dim=8&vectors=equal&distance=10&picture=table",
        "patches": "turns?chapter=13&model=qwen2-vl-7b&of=1&vectors=equal&picture=patches&below=2",
        "mine": "mine", "exact": "exact", "line": "line?words=inspect+llama-3.1-8b.json"}
    for width in (1280, 768, 360):
        page.resize(width)
        for dark in (False, True):
            page.dark(dark)
            for name, state in states.items():
                page.go(state)
                if name == "mine":
                    page.driver.find_element("id", "example").click()
                    page.wait("return document.querySelector('#mine-answer canvas') !== null")
                page.shot(target / f"{name}-{width}{'-dark' if dark else ''}.png")
    page.resize(1120, 1500)
    page.dark(False)
    for name, state, height in (("model", "model", 1010), ("turns", "scaling", 1150)):  # docs/pictures
        page.go(states[state])
        path = target / f"explorer-{name}.png"
        page.shot(path, height, 0.75)
        Image.open(path).quantize(256).save(path, optimize=True)


def main():
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    wanted = [word for word in sys.argv[3:] if not word.startswith("--")]
    failed = 0
    with Page(page_path) as page:
        page.open()
        page.requests()
        if "--shots" in sys.argv:
            return make_shots(page, pathlib.Path(sys.argv[sys.argv.index("--shots") + 1]))
        tests = [test for test in tests if not wanted or test.__name__ in wanted]
        for test in tests:
            try:
                test(page)
            except Exception:  # the next test goes on with a page that is opened anew
                failed += 1
                print(f"FAILED {test.__name__}\n{traceback.format_exc(limit=-2)[:2000]}")
                page.open()
    print(f"{len(tests) - failed} passed, {failed} failed, 0 skipped")
    sys.exit(failed > 0)


main()
