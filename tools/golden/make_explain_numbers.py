"""Every number with decimals in the chapters of `rotary explain`, in reading order, by mpmath: tests/golden/explain.json.

Run by hand after a chapter has changed: /opt/oracle/bin/python tools/golden/make_explain_numbers.py
It knows the formulas of RoPE and of the scalings, and nothing of the library. Vectors and tables are exact here; the
library's are f32, so a chapter may show only digits that f32 has.
"""
import json
import pathlib
from decimal import ROUND_HALF_EVEN, Decimal

import mpmath
from mpmath import mp, mpf

mp.dps = 60
PI = mp.pi


class Chapter:
    def __init__(self):
        self.numbers = {}
        self.phrases = []

    def add(self, key, value, decimals):
        assert key not in self.numbers, key
        step = Decimal(1).scaleb(-decimals)
        text = str(Decimal(mp.nstr(mpf(value), 45)).quantize(step, ROUND_HALF_EVEN))
        self.numbers[key] = text.lstrip("-") if Decimal(text) == 0 else text

    def add_all(self, key, values, decimals):
        for i, value in enumerate(values):
            self.add(f"{key}[{i}]", value, decimals)

    def add_power(self, key, value):  # one decimal and a power of ten
        mantissa, exponent = f"{float(value):.1e}".split("e")
        self.numbers[key] = f"{mantissa}e{exponent}"


def turn(vector, speeds, position, pairing="interleaved"):
    n = len(speeds)
    out = [mpf(x) for x in vector]
    for i, speed in enumerate(speeds):
        a, b = (2 * i, 2 * i + 1) if pairing == "interleaved" else (i, i + n)
        c, s = mp.cos(position * speed), mp.sin(position * speed)
        out[a], out[b] = vector[a] * c - vector[b] * s, vector[b] * c + vector[a] * s
    return out


def dot(a, b):
    return mp.fsum(x * y for x, y in zip(a, b))


def plain(d, base=10000):
    return [mpf(base) ** (-mpf(2 * i) / d) for i in range(d // 2)]


def f32(x):
    with mp.workprec(24):
        return +mpf(x)


def turn_chapter(c):
    x = [3, 1]
    cosine, sine = mp.cos(PI / 3), mp.sin(PI / 3)
    after = turn(x, [PI / 180], 60)
    c.add("cos 60", cosine, 6)
    c.add("sin 60", sine, 6)
    for name, value in (("a'", after[0]), ("b'", after[1])):
        c.add(f"{name}: cos", cosine, 6)
        c.add(f"{name}: sin", sine, 6)
        c.add(name, value, 6)
    c.add_all("rotate", after, 6)
    c.add("length before", mp.sqrt(10), 6)
    c.add("length after", mp.sqrt(dot(after, after)), 6)
    c.add_all("in the dot product", after, 6)
    c.add("dot product", dot(x, after), 6)
    c.add("length squared", 10, 6)
    c.add("cos 60 again", cosine, 6)
    c.add("length squared times cos 60", 10 * cosine, 6)
    for degrees in (0, 30, 60, 90, 120, 180):
        moved = turn(x, [PI / 180], degrees)
        c.add_all(f"turned by {degrees}", moved, 4)
        c.add(f"dot at {degrees}", dot(x, moved), 4)


def distance_chapter(c):
    q, k, one = [3, 1], [2, 2], [mpf(1)]

    def score(distance):
        return dot(turn(q, one, distance), k)

    c.add("full circle", 2 * PI, 6)
    for m, n in ((3, 0), (5, 2), (103, 100), (1000003, 1000000), (2, 0), (4, 2), (1000002, 1000000), (0, 3)):
        c.add_all(f"q at {m}, of {m} and {n}", turn(q, one, m), 3)
        c.add_all(f"k at {n}, of {m} and {n}", turn(k, one, n), 3)
        c.add(f"score of {m} and {n}", score(m - n), 4)
    for where in ("here", "a million further", "at 5 and 2", "at 103 and 100"):
        c.add(f"score at distance 3, {where}", score(3), 4)
    back = turn(k, one, -3)
    c.add_all("k turned by -3", back, 6)
    c.add("q . k turned by -3", dot(q, back), 5)
    c.add("cos 3", mp.cos(3), 6)
    c.add("sin 3", mp.sin(3), 6)
    c.add("8 cos 3 + 4 sin 3", 8 * mp.cos(3) + 4 * mp.sin(3), 5)


def pairs_chapter(c):
    for distance in (0, 1, 2, 10, 100, 1000):
        c.add(f"score at {distance}", mp.cos(distance), 6)
        c.add(f"cos {distance}", mp.cos(distance), 6)
    c.add("full circle", 2 * PI, 6)
    c.add("score at 44", mp.cos(44), 6)
    c.add_all("speeds", plain(4), 2)
    both = {d: mp.cos(d) + mp.cos(mpf(d) / 100) for d in (0, 1, 2, 10, 44, 100, 1000)}
    for distance, total in both.items():
        c.add(f"two pairs: pair 0 at {distance}", mp.cos(distance), 6)
        c.add(f"two pairs: pair 1 at {distance}", mp.cos(mpf(distance) / 100), 6)
        c.add(f"two pairs: score at {distance}", total, 6)
    c.add("two pairs: score at 44 again", both[44], 6)
    c.add("two pairs: score at 0 again", both[0], 6)


def angles_chapter(c):
    speeds = plain(8)
    for i, speed in enumerate(speeds):
        c.add(f"pair {i}: formula", speed, 6)
        c.add(f"pair {i}: inv_freq", speed, 6)
        c.add(f"pair {i}: degrees", speed * 180 / PI, 4)
        c.add(f"pair {i}: wavelength", 2 * PI / speed, 4)
    positions = (0, 1, 2, 3, 10, 100, 1000)
    for name, function, decimals in (("angle", lambda x: x, 3), ("cos", mp.cos, 5), ("sin", mp.sin, 5)):
        for p in positions:
            c.add_all(f"{name} at {p}", [function(p * speed) for speed in speeds], decimals)


def matrix_chapter(c):
    x, speeds = [1, 2, 3, 4], plain(4)
    angles = [2 * speed for speed in speeds]
    product = turn(x, speeds, 2)
    c.add_all("angles", angles, 2)
    for row in range(4):
        cosine, sine = mp.cos(angles[row // 2]), mp.sin(angles[row // 2])
        c.add_all(f"row {row}", [cosine, -sine] if row % 2 == 0 else [sine, cosine], 6)
        c.add(f"row {row}: product", product[row], 6)
    for i in range(4):
        c.add(f"element {i}: cos", mp.cos(angles[i // 2]), 6)
        c.add(f"element {i}: sin", mp.sin(angles[i // 2]), 6)
        c.add(f"element {i}: sum", product[i], 6)
        c.add(f"element {i}: rotate", product[i], 6)
    c.add_all("turned back", x, 6)
    c.phrases += [f"has {128 * 128} entries", f"all but {2 * 128} are zero", f"so {2 * 128} for a head of 128"]


def complex_chapter(c):
    def add_complex(key, z):  # the sign of the imaginary part stands apart
        c.add(f"{key}: real", z.real, 6)
        c.add(f"{key}: imaginary", abs(z.imag), 6)

    z, q, k = mpmath.mpc(3, 1), mpmath.mpc(3, 1), mpmath.mpc(2, 2)
    unit = mp.expj(PI / 3)
    add_complex("e^(i 60 degrees)", unit)
    add_complex("3 + 1i turned", z * unit)
    c.add_all("rotate", turn([3, 1], [PI / 180], 60), 6)
    content, place = q * mp.conj(k), mp.expj(3)
    add_complex("content", content)
    add_complex("place", place)
    add_complex("product", content * place)
    c.add("real part", (content * place).real, 4)
    c.add("score", dot(turn([3, 1], [mpf(1)], 5), turn([2, 2], [mpf(1)], 2)), 4)


def pairing_chapter(c):
    speeds = plain(4)
    q, k = [1, 2, 3, 4], [4, 1, 3, 2]

    def halves(x):
        return x[0::2] + x[1::2]

    rows = {
        "both interleaved": (q, "interleaved", k, "interleaved"),
        "both half, both permuted": (halves(q), "half", halves(k), "half"),
        "both half, not permuted": (q, "half", k, "half"),
        "q half, k interleaved": (q, "half", k, "interleaved"),
    }
    for name, (left, left_pairing, right, right_pairing) in rows.items():
        for n in (4, 104):
            c.add(f"{name}, at {n + 3} and {n}",
                  dot(turn(left, speeds, n + 3, left_pairing), turn(right, speeds, n, right_pairing)), 4)
    c.phrases += [f"`({', '.join(map(str, halves(x)))})`" for x in (q, k)]
    c.phrases.append("half           " + "  ".join(halves([f"x{i}" for i in range(8)])))


def frequencies_chapter(c):
    speeds = plain(128)

    def mean(distance):
        return mp.fsum(mp.cos(distance * speed) for speed in speeds) / 64

    for i in (0, 1, 8, 16, 32, 48, 63):
        c.add(f"pair {i}: inv_freq", speeds[i], 9)
        c.add(f"pair {i}: wavelength", 2 * PI / speeds[i], 2)
        c.add(f"pair {i}: turns", 4096 * speeds[i] / (2 * PI), 3)
    for distance in (0, 1, 2, 44, 710, 10000):
        c.add(f"pair 0 at {distance}", mp.cos(distance * speeds[0]), 6)
        c.add(f"pair 63 at {distance}", mp.cos(distance * speeds[63]), 6)
        c.add(f"mean at {distance}", mean(distance), 6)
    for distance in range(7):
        c.add(f"turned back by 3, at {distance}", mean(distance - 3), 6)
    for base in (10000, 500000, 1000000):
        c.add(f"base {base}: pair 0", 2 * PI, 2)
        c.add(f"base {base}: pair 63", 2 * PI / plain(128, base)[63], 2)
    c.phrases.append(f"{int(mp.nint(710 / (2 * PI)))} full turns")


def partial_chapter(c):
    speeds = plain(4)  # of the rotary_dim, not of the head
    x = list(range(1, 9))
    after = turn(x[:4], speeds, 3, "half") + x[4:]
    for i in range(8):
        c.add(f"element {i} before", x[i], 4)
        c.add(f"element {i} after", after[i], 4)
    c.add_all("speeds of 4", speeds, 3)
    c.add_all("speeds of 8", plain(8), 3)
    for distance in (0, 1, 10, 100, 1000):
        moving = 2 * mp.cos(distance) + 2 * mp.cos(mpf(distance) / 100)
        c.add(f"turning at {distance}", moving, 4)
        c.add(f"still at {distance}", 4, 4)
        c.add(f"score at {distance}", moving + 4, 4)


def cache_chapter(c):
    speeds = plain(4)
    keys = [[-2, -1, 0, 1], [1, 1, 1, 0], [-1, 3, 2, 1], [2, 0, 0, 0], [0, 2, 1, 1]]
    q = [1, 2, 0, 1]
    stored = [turn(key, speeds, p) for p, key in enumerate(keys)]
    for p, key in enumerate(keys):
        c.phrases.append(f"({', '.join(map(str, key))})")
        c.add_all(f"stored at {p}", stored[p], 5)
    query = turn(q, speeds, 4)
    for p in range(5):
        c.add(f"score of key {p}, from the cache", dot(query, stored[p]), 5)
        c.add(f"score of key {p}, full pass", dot(query, stored[p]), 5)
        c.add(f"score of key {p}, offset forgotten", dot(q, stored[p]), 5)
    c.add_all("moved to 3", turn(stored[4], speeds, -1), 5)
    c.add_all("made at 3", turn(keys[4], speeds, 3), 5)
    c.phrases.append("5 of 5 cached keys")


# Linear, NTK-aware, YaRN and Llama 3 scaling as published: factor 4, 4096 tokens, 128 elements, base 10000.
def scalings():
    w, f, length, d = plain(128), 4, 4096, 128
    linear = [speed / f for speed in w]
    ntk = [(10000 * mpf(f) ** (mpf(d) / (d - 2))) ** (-mpf(2 * i) / d) for i in range(d // 2)]

    def pair_turning(times):  # the pair, as a real number, that turns so many times in the trained length
        return d * mp.log(length / (2 * PI * times)) / (2 * mp.log(10000))

    low, high = mp.floor(pair_turning(32)), mp.ceil(pair_turning(1))
    yarn, llama3 = [], []
    for i, speed in enumerate(w):
        stretched = min(max((i - low) / (high - low), 0), 1)
        yarn.append(speed / f * stretched + speed * (1 - stretched))
        turns = length * speed / (2 * PI)
        kept = min(max((turns - 1) / mpf(4 - 1), 0), 1)
        llama3.append((1 - kept) * speed / f + kept * speed)
    return {"linear": linear, "NTK": ntk, "YaRN": yarn, "llama3": llama3}


def scaling_chapter(c):
    w, methods = plain(128), scalings()
    c.add("inv_freq of pair 63", w[63], 9)
    c.add("angle of pair 63 at 4095", 4095 * w[63], 6)
    c.add("angle of pair 63 at 16383", 16383 * w[63], 6)
    magnitude = mp.log(4) / 10 + 1
    c.add("YaRN's attention factor", magnitude, 6)
    c.add("its square", magnitude**2, 6)
    for i in (0, 8, 16, 24, 32, 40, 48, 56, 63):
        c.add(f"pair {i}: wavelength", 2 * PI / w[i], 2)
        c.add(f"pair {i}: turns", 4096 * w[i] / (2 * PI), 3)
        for name, speeds in methods.items():
            c.add(f"pair {i}: {name}", w[i] / speeds[i], 4)
    for name, speeds in {"no scaling": w, **methods}.items():
        c.add(f"{name}: pair 63 at 16383", 16383 * speeds[63], 6)
        c.add(f"{name}: pair 0, neighbours", speeds[0], 4)


def precision_chapter(c):
    exact = plain(128)
    # The frameworks' float32 steps: exponent, power, reciprocal, product, cosine, each rounded.
    steps = [f32(1 / f32(mpf(10000) ** f32(mpf(2 * i) / 128))) for i in range(64)]
    angle = f32(131071 * steps[1])
    c.add("inv_freq of pair 1", exact[1], 10)
    c.add("inv_freq of pair 1, float32", steps[1], 10)
    c.add("angle", 131071 * exact[1], 6)
    c.add("angle, float32", angle, 6)
    c.add("cosine", mp.cos(131071 * exact[1]), 7)
    c.add("cosine, float32", f32(mp.cos(angle)), 7)
    c.add("spacing of float32", mpf(2) ** (mp.floor(mp.log(angle, 2)) - 23), 7)
    for p in (1, 100, 4095, 32767, 131071, 1048575):
        truth = [mp.cos(p * speed) for speed in exact]
        c.add_power(f"error at {p}, exact", max(abs(f32(t) - t) for t in truth))
        c.add_power(f"error at {p}, float32", max(abs(f32(mp.cos(f32(p * s))) - t) for s, t in zip(steps, truth)))
    for n in (0, 4095, 131071, 1048575, 16777215):
        c.add(f"neighbours at {n}, exact", mp.cos(exact[1]), 6)
        a, b = f32((n + 1) * steps[1]), f32(n * steps[1])
        c.add(f"neighbours at {n}, float32", mp.cos(a) * mp.cos(b) + mp.sin(a) * mp.sin(b), 6)
    c.add("speed of pair 1", exact[1], 6)


def axes_chapter(c):
    two = plain(4)
    speeds = two + two
    for i, speed in enumerate(speeds):
        c.add(f"pair {i}", speed, 2)

    def turned(x, place, speeds, axis):
        out = []
        for i, (speed, a) in enumerate(zip(speeds, axis)):
            out += turn(x[2 * i:2 * i + 2], [speed], place[a])
        return out

    q, ones, axis = [1, 2, 3, 4, 4, 3, 2, 1], [1] * 8, [0, 0, 1, 1]
    for m, n in (((2, 3), (0, 0)), ((7, 10), (5, 7)), ((502, 703), (500, 700)), ((3, 2), (0, 0)), ((0, 3), (2, 0))):
        c.add(f"q at {m}, k at {n}", dot(turned(q, m, speeds, axis), turned(ones, n, speeds, axis)), 4)
    half, line = plain(32), plain(64)
    for m, n in (((4, 4), (4, 5)), ((4, 4), (5, 4)), ((4, 4), (5, 5)), ((4, 15), (5, 0))):
        rows, columns = n[0] - m[0], n[1] - m[1]
        near = mp.fsum(mp.cos(rows * w) + mp.cos(columns * w) for w in half) / 32
        c.add(f"{m} to {n}, two axes", near, 6)
        c.add(f"{m} to {n}, numbered", mp.fsum(mp.cos((16 * rows + columns) * w) for w in line) / 32, 6)
    w = plain(128, 1000000)
    sections = [0] * 16 + [1] * 24 + [2] * 24
    in_turn = [1 if i % 3 == 1 and i < 60 else 2 if i % 3 == 2 and i < 60 else 0 for i in range(64)]
    for name, layout in (("sections", sections), ("in turn", in_turn)):
        for a in range(3):
            mine = [w[i] for i in range(64) if layout[i] == a]
            c.add(f"{name}, axis {a}: shortest", 2 * PI / mine[0], 2)
            c.add(f"{name}, axis {a}: radians", 39 * mine[0], 6)
            c.phrases.append(f"| {int(mp.nint(2 * PI / mine[-1]))} |")
    word = turn(list(range(1, 9)), plain(8), 5)
    c.add_all("one axis", word, 3)
    c.add_all("three axes", word, 3)
    c.phrases += ["tttthhhhhhwwwwww", "thwthwthwthwthwt", f"must add {8 - 11} to"]


def deepseek_chapter(c):
    speeds = plain(4)

    def to_half(x, position):
        out = turn(x, speeds, position)
        return out[0::2] + out[1::2]

    c.add_all("interleaved", turn([1, 2, 3, 4], speeds, 3), 4)
    c.add_all("interleaved_to_half", to_half([1, 2, 3, 4], 3), 4)
    q, k = [1, 2, 3, 4], [4, 1, 3, 2]
    ways = {"interleaved": lambda x, p: turn(x, speeds, p), "to half": to_half,
            "half": lambda x, p: turn(x, speeds, p, "half")}
    for a, b in (("interleaved",) * 2, ("to half",) * 2, ("to half", "interleaved"), ("half",) * 2):
        for n in (4, 104):
            c.add(f"{a} and {b}, at {n + 3} and {n}", dot(ways[a](q, n + 3), ways[b](k, n)), 4)
    c.add_all("fresh at 3", to_half(k, 3), 5)
    c.add_all("moved as half", turn(to_half(k, 4), speeds, -1, "half"), 5)
    c.add_all("moved wrong", to_half(to_half(k, 4), -1), 5)
    heads, still, turning, value, latent = 128, 128, 64, 128, 512
    keys, values, stored = heads * (still + turning), heads * value, latent + turning
    c.add("factor", mpf(keys + values) / stored, 1)
    c.phrases += [f"| {keys:,} |", f"| {values:,} |", f"{stored} numbers instead of {keys + values:,}"]
    magnitude = mp.log(40) / 10 + 1
    for name, power in (("magnitude", 1), ("square", 2), ("both", 4), ("in the table", 1)):
        c.add(name, magnitude**power, 6)
    c.add("quotient", 1, 6)


def length_chapter(c):
    w, trained, d = plain(128), 4096, 128

    def dynamic(length):
        growth = mpf(2) * max(length, trained) / trained - 1
        base = 10000 * growth ** (mpf(d) / (d - 2))
        return base, plain(128, base)

    for length in (1000, 4096, 4097, 6144, 8192, 16384, 32768):
        base, now = dynamic(length)
        c.phrases.append(f"| {length} | {int(mp.nint(base))} |")
        c.add(f"{length}: pair 32", w[32] / now[32], 4)
        c.add(f"{length}: pair 63", w[63] / now[63], 4)
        c.add(f"{length}: farthest", (length - 1) * now[63], 4)
    c.add("farthest in training", 4095 * w[63], 4)
    short, long = [mpf(x) for x in ("1", "1.05", "1.1", "1.2")], [mpf(x) for x in ("1", "2.5", "12", "32")]
    for i, speed in enumerate(plain(8)):
        c.add(f"pair {i}", speed, 6)
        c.add(f"pair {i}: short", short[i], 2)
        c.add(f"pair {i}: long", long[i], 2)
        c.add(f"pair {i}: within", speed / short[i], 6)
        c.add(f"pair {i}: beyond", speed / long[i], 6)
    c.add("attention factor", mp.sqrt(1 + mp.log(32) / mp.log(4096)), 6)
    now = dynamic(8192)[1]
    for n in (4095, 4000, 3000, 1000, 0):
        c.add(f"key at {n}, anew", mp.fsum(mp.cos((8191 - n) * x) for x in now) / 64, 6)
        c.add(f"key at {n}, cache", mp.fsum(mp.cos(8191 * x - n * y) for x, y in zip(now, w)) / 64, 6)


CHAPTERS = {
    "turn": turn_chapter,
    "distance": distance_chapter,
    "pairs": pairs_chapter,
    "angles": angles_chapter,
    "matrix": matrix_chapter,
    "complex": complex_chapter,
    "pairing": pairing_chapter,
    "frequencies": frequencies_chapter,
    "partial": partial_chapter,
    "cache": cache_chapter,
    "scaling": scaling_chapter,
    "precision": precision_chapter,
    "axes": axes_chapter,
    "deepseek": deepseek_chapter,
    "length": length_chapter,
}

if __name__ == "__main__":
    chapters = {}
    for name, write in CHAPTERS.items():
        chapter = Chapter()
        write(chapter)
        chapters[name] = {"numbers": chapter.numbers, "phrases": chapter.phrases}
    made = {"made_with": f"tools/golden/make_explain_numbers.py, mpmath {mpmath.__version__}", "chapters": chapters}
    path = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/explain.json"
    path.write_text(json.dumps(made, indent=1) + "\n")
    print(path, sum(len(c["numbers"]) for c in chapters.values()), "numbers")
