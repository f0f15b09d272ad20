"""The site that scripts/site.sh builds, in headless Chromium: site_test.py DIR [--shots DIR]. Every page is opened at
360 pixels, where a page that is too wide shows. The last line printed is "N passed, N failed, N skipped"."""

import functools
import http.server
import pathlib
import sys
import threading

from browser import Page

SEARCHES = {"rotate_qk": "rotary/rotary.h/", "LongRope": "rotary.scalings/",
            "many frequencies": "explain/08-frequencies/"}
TOO_WIDE = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
BROKEN = "return [...document.images].filter(image => image.complete && !image.naturalWidth).map(image => image.src)"
RESULTS = "return [...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def faults_of(page, site, shots):
    """The faults of each page of the site."""
    page.resize(360)
    for file in sorted(site.rglob("index.html")):
        name = file.parent.relative_to(site).as_posix().strip(".")
        page.driver.get(page.address + (f"{name}/" if name else ""))
        found = [f"lacks the picture {image}" for image in page.js(BROKEN)]
        found += [f"asks for {url}" for url in page.requests()] + page.messages()
        yield name or "README", found + (["is wider than the window"] if page.js(TOO_WIDE) else [])
        if shots:
            page.shot(shots / f"{name.replace('/', '-') or 'README'}.png", 1400)


def search(page, words, target):
    """The faults of the answer of the site's search: it must lead to target."""
    page.driver.get(page.address + "?q=" + words.replace(" ", "+"))
    try:
        page.wait(f"{RESULTS}.length > 0", 30)
    except TimeoutError:
        return ["finds nothing"]
    links = page.js(RESULTS)
    return [] if any(link.startswith(page.address + target) for link in links) else [f"finds {links} and not {target}"]


def main(site, shots):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Page(site) as page:
        page.address = f"http://127.0.0.1:{server.server_port}/"
        results = list(faults_of(page, site, shots))
        results += [(f"the search for {words}", search(page, words, target)) for words, target in SEARCHES.items()]
    failed = [f"{name} {fault}" for name, faults in results for fault in faults]
    print("\n".join(failed))
    bad = sum(bool(faults) for _, faults in results)
    print(f"{len(results) - bad} passed, {bad} failed, 0 skipped")
    return bad > 0


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1]).resolve()
    sys.exit(main(folder, pathlib.Path(sys.argv[3]) if sys.argv[2:3] == ["--shots"] else None))
