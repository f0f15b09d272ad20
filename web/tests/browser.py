"""A headless Chromium with the page, for the tests and the screenshots."""

import base64
import json
import time
import zlib

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service


class Page:
    def __init__(self, page, width=1280, height=900):
        options = Options()
        options.binary_location = "/usr/bin/chromium"
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     f"--window-size={width},{height}"):
            options.add_argument(word)
        self.driver = webdriver.Chrome(options, Service("/usr/bin/chromedriver"))
        self.driver.set_script_timeout(300)
        self.address = page.resolve().as_uri()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def open(self, state="model"):
        """Opens the page anew, with a state in its address, and waits until it is shown."""
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}#{state}")
        self.settle()

    def go(self, state):
        """Changes the state of the open page."""
        self.js("location.hash = arguments[0]", state)
        self.settle()

    def settle(self, seconds=120):
        """Waits until no panel is busy."""
        time.sleep(0.02)  # a change of the address arrives as an event
        self.wait("return !document.querySelector('main[aria-busy]')", seconds)

    def wait(self, condition, seconds=120):
        """Waits until a JavaScript condition holds."""
        self.wait_for(lambda: self.js(condition), seconds, condition)

    def wait_for(self, holds, seconds=120, what="a condition"):
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {seconds} s: {what}")
            time.sleep(0.05)

    def press(self, key):
        webdriver.ActionChains(self.driver).send_keys(key).perform()

    def workers(self):
        """The number of workers that are alive."""
        targets = self.driver.execute_cdp_cmd("Target.getTargets", {"filter": [{}]})["targetInfos"]
        return sum(target["type"] == "worker" for target in targets)

    def js(self, script, *words):
        return self.driver.execute_script(script, *words)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? null", selector)

    def rotary(self, words, files=None):
        """window.rotary in the page; files are strings or bytes, in its answer too."""
        packed = {name: data if isinstance(data, str) else list(data) for name, data in (files or {}).items()}
        return self.driver.execute_async_script(
            """const [words, files, done] = arguments;
               const given = Object.entries(files).map(([name, data]) =>
                 [name, typeof data === 'string' ? data : Uint8Array.from(data)]);
               window.rotary(words, Object.fromEntries(given)).then(answer => {
                 const made = Object.entries(answer.files).map(([name, data]) => [name, Array.from(data)]);
                 done({ ...answer, files: Object.fromEntries(made) });
               }, error => done({ broken: String(error) }));""", words, packed)

    def dark(self, is_dark):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]})

    def resize(self, width, height=900):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.settle()

    def shot(self, path, height=None, scale=1):
        """A picture of the whole page, or of so much of its height."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {**size, "height": height or size["height"], "scale": scale}
        answer = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "format": "png", "clip": clip, "captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(answer["data"]))

    def messages(self):
        """The console's messages since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self):
        """The addresses that were asked for since the last call, but the page's own, blobs and about:blank."""
        sent = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                sent.append(message["params"]["request"]["url"])
        return [url for url in sent if not url.startswith((self.address, "blob:", "about:", "data:"))]


def packed(name, text):
    """A model's text as an address has it (web/models.js)."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = deflate.compress(text.encode()) + deflate.flush()
    return f"={name}/" + base64.urlsafe_b64encode(data).decode().rstrip("=")
