"""A headless browser, controlled through W3C WebDriver; needs chromium and its chromedriver."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.request
from contextlib import contextmanager

DRIVER, CHROMIUM = shutil.which("chromedriver"), shutil.which("chromium") or shutil.which("google-chrome")
WHY_NOT = (
    "there is no chromium with its chromedriver: make test-browser, or on Debian: apt-get install chromium chromium-driver"
)

FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root in a container has no sandbox
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--no-first-run",
)


class Browser:
    """A session of chromedriver."""

    def __init__(self, port):
        self._base = f"http://127.0.0.1:{port}/session"
        options = {"args": list(FLAGS), "binary": CHROMIUM}
        capabilities = {"browserName": "chrome", "goog:chromeOptions": options}
        capabilities["goog:loggingPrefs"] = {"browser": "ALL", "performance": "ALL"}
        self._base += "/" + self._call("", {"capabilities": {"alwaysMatch": capabilities}})["sessionId"]

    def _call(self, path, body=None, method="POST"):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, address, *, width=1280, height=900, media="screen", scheme="light"):
        """Open a page and clear the logs of previous pages."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        scheme = [{"name": "prefers-color-scheme", "value": scheme}]
        self.devtools("Emulation.setEmulatedMedia", media=media, features=scheme)
        self.log("browser"), self.log("performance")
        self._call("/url", {"url": address})

    def run(self, script):
        return self._call("/execute/sync", {"script": script, "args": []})

    def devtools(self, command, **arguments):
        return self._call("/goog/cdp/execute", {"cmd": command, "params": arguments})

    def log(self, kind):
        return self._call("/se/log", {"type": kind})

    def requests(self):
        """The addresses that the page has requested."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path):
        """Save a picture of the whole page."""
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.devtools("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self._call("", method="DELETE")


@contextmanager
def browser():
    """A browser session, closed at the end."""
    driver = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = next(match[1] for line in driver.stdout if (match := re.search(r"successfully on port (\d+)", line)))
        session = Browser(port)
        try:
            yield session
        finally:
            session.close()
    finally:
        driver.terminate()
        driver.wait(30)
        driver.stdout.close()
