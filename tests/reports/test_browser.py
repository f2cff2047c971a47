"""The HTML report in a real browser. `make test-browser` runs these tests; screenshots are in artifacts/."""

from __future__ import annotations

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import browser as chromium
import pytest
from report_data import everything, many_models, small_comparison, small_result

from spark_recmetrics.decisions.comparison import Comparison

pytestmark = [pytest.mark.browser, pytest.mark.skipif(not (chromium.DRIVER and chromium.CHROMIUM), reason=chromium.WHY_NOT)]

ARTIFACTS = Path(__file__).resolve().parents[2] / "artifacts"
HOSTILE = "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">'\"&{{ 7*7 }}$x$"
WIDTHS = {"phone": 390, "desk": 1280}


@pytest.fixture(scope="module")
def browser():
    with chromium.browser() as session:
        yield session


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    result, more = everything()
    return result.to_html(tmp_path_factory.mktemp("report") / "report.html", **more)


@pytest.fixture
def server():
    """The address of a local server, and the paths that were requested."""
    requested = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}", requested
        running.shutdown()


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_the_page_opens_without_errors_and_requests(browser, page, width):
    browser.open(page.as_uri(), width=width)
    assert browser.log("browser") == []
    assert {address.partition(":")[0] for address in browser.requests()} <= {"file", "data"}
    assert browser.run("return document.title").endswith("Gates failed: 1 of 2")
    assert browser.run("return document.scripts.length") == 0


def test_errors_and_requests_are_detected(browser, tmp_path, server):
    """The test above would fail for a page with errors or requests."""
    address, requested = server
    other = tmp_path / "other.html"
    other.write_text(f"<!doctype html><title>x</title><img src='{address}/asked'><script>throw Error('visible')</script>")
    browser.open(other.as_uri())
    assert f"{address}/asked" in browser.requests()
    assert requested == ["/asked"]
    assert "visible" in str(browser.log("browser"))


def test_the_policy_of_the_page_blocks_injected_elements(browser, page, tmp_path, server):
    """The policy protects readers even if escaping fails."""
    address, requested = server
    injected = (
        f"<img src='{address}/asked'><script>document.title='taken'</script><iframe src='{address}/asked'></iframe></body>"
    )
    other = tmp_path / "other.html"
    other.write_text(page.read_text().replace("</body>", injected))
    browser.open(other.as_uri())
    assert requested == []
    assert browser.run("return document.title") != "taken"
    assert "Content Security Policy" in str(browser.log("browser"))


@pytest.mark.parametrize("kind", ["page", "notebook"])
def test_a_hostile_name_is_inert(browser, tmp_path, kind):
    result, more = everything(first=HOSTILE)
    path = tmp_path / "hostile.html"
    if kind == "page":
        # Without the policy, so that only escaping protects.
        text = result.to_html(path, **{**more, "configuration": HOSTILE}).read_text()
        path.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text))
    else:
        path.write_text(f"<!doctype html><meta charset='utf-8'><title>cell</title>{result._repr_html_()}")
    browser.open(path.as_uri())
    assert browser.log("browser") == []
    assert browser.run("return document.title") != "taken"
    assert browser.run("return document.querySelectorAll('script, img').length") == 0
    assert HOSTILE in browser.run("return document.body.textContent")
    assert {address.partition(":")[0] for address in browser.requests()} <= {"file", "data"}


def lightness(color):
    """Lightness of a color such as `rgb(…)`, from 0 (black) to 255."""
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


COLORS = """
const style = (node, key) => getComputedStyle(node)[key];
const line = document.querySelector('svg path[style*="--model-0"]');
return [style(document.documentElement, 'colorScheme'), style(document.body, 'backgroundColor'),
        style(document.body, 'color'), style(document.querySelector('svg text'), 'fill'), style(line, 'stroke')];
"""


@pytest.mark.parametrize(
    ("media", "scheme", "is_dark"), [("screen", "light", False), ("screen", "dark", True), ("print", "dark", False)]
)
def test_light_dark_and_paper(browser, page, media, scheme, is_dark):
    browser.open(page.as_uri(), media=media, scheme=scheme)
    _, ground, ink, letters, line = browser.run(COLORS)
    assert (lightness(ground) < 60, lightness(ink) > 190, lightness(letters) > 130) == (is_dark,) * 3
    assert line == ("rgb(92, 184, 242)" if is_dark else "rgb(0, 114, 178)")


def test_details_are_printed(browser, page):
    shown = "return [...document.querySelectorAll('details > :not(summary)')].map(node => node.checkVisibility())"
    browser.open(page.as_uri())
    assert not any(browser.run(shown))
    browser.open(page.as_uri(), media="print")
    assert all(browser.run(shown))
    assert browser.devtools("Page.printToPDF")["data"].startswith("JVBERi0")  # %PDF-


FITS = """
const outside = [];
for (const svg of document.querySelectorAll('svg')) {
  const box = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll('text')) {
    const inner = text.getBoundingClientRect();
    if (inner.left < box.left - 3 || inner.right > box.right + 3 || inner.top < box.top - 3 || inner.bottom > box.bottom + 3)
      outside.push(text.textContent);
  }
}
return outside;
"""
SMALLEST = """
const sizes = [...document.querySelectorAll('svg')].flatMap(svg => [...svg.querySelectorAll('text')].map(text =>
  parseFloat(getComputedStyle(text).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width));
return Math.min(...sizes);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", WIDTHS)
def test_the_page_fits_the_screen_and_is_readable(browser, page, name, scheme):
    browser.open(page.as_uri(), width=WIDTHS[name], scheme=scheme)
    ARTIFACTS.mkdir(exist_ok=True)
    shot = ARTIFACTS / f"report-{name}-{scheme}.png"
    browser.screenshot(shot)
    from PIL import Image

    with Image.open(shot) as image:
        assert image.width == WIDTHS[name]
        assert len(image.convert("RGB").getcolors(1 << 24)) > 50  # neither blank nor broken
    assert browser.run("return document.documentElement.scrollWidth") <= WIDTHS[name]
    assert browser.run(FITS) == []
    assert browser.run(SMALLEST) >= 9


STICKY = """
return [...document.querySelectorAll('.values')].map(table => {
  const seen = table.parentElement.getBoundingClientRect(), names = [...table.querySelectorAll('tbody th, thead th')];
  const first = table.querySelector('tbody th').getBoundingClientRect(), size = parseFloat(getComputedStyle(table).fontSize);
  const tallest = Math.max(...names.map(name => name.getBoundingClientRect().height));
  return [(first.right - seen.left) / Math.min(seen.width, innerWidth), tallest / size / 1.5];
});
"""


@pytest.mark.parametrize("name", WIDTHS)
def test_long_names_leave_room_for_values(browser, tmp_path, name):
    models = {f"two_tower_with_a_very_long_descriptive_name_{n}": value for n, value in enumerate((0.25, 0.5))}
    metric = "bias_disparity_br(items=genre_of_the_recommended_item, users=gender_and_age_of_the_user)@2"
    rows = [row for text in ("mrr@2", metric) for row in many_models(models, text)]
    sliced = [{**row, "slice": "age*country", "slice_value": f"young & {'Llanfair' * 5}{n}"} for row in rows for n in (1, 2)]
    result = small_result()
    result.__dict__["rows"] = [*rows, *sliced]
    first, second = models
    history = [{**row, "as_of": as_of} for as_of in ("2026-11-27", "2026-11-28") for row in rows]
    comparison = small_comparison(first, second)
    comparison = Comparison(tuple({**row, "metric": metric} for row in comparison.rows), 0.05)
    path = result.to_html(tmp_path / "long.html", comparison=comparison, history=history)
    browser.open(path.as_uri(), width=WIDTHS[name])
    browser.run("document.querySelectorAll('details').forEach(node => node.open = true)")
    assert browser.run("return document.documentElement.scrollWidth") <= WIDTHS[name]
    shares = browser.run(STICKY)
    assert shares
    assert max(share for share, _ in shares) <= 0.55, "the sticky names leave room for the values"
    assert max(lines for _, lines in shares) <= 8, "and are not wrapped into columns of letters"
    assert browser.run(FITS) == []
    ARTIFACTS.mkdir(exist_ok=True)
    browser.screenshot(ARTIFACTS / f"long-{name}.png")
