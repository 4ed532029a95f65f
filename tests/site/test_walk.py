"""The site is built as ``make site`` does, and a headless Chromium walks through it."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.support.browser import Browser

ROOT = Path(__file__).parents[2]

#: It is built in an environment of its own, by a target of its own.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def html(tmp_path_factory) -> Path:
    pytest.importorskip("myst_nb", reason="the docs extra is not installed")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "docs.site", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / "html"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


@pytest.fixture(scope="module")
def address(html) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(html)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


@pytest.fixture(autouse=True)
def no_errors(browser: Browser) -> Iterator[None]:
    yield
    assert not browser.errors


def text_of(browser: Browser) -> str:
    return browser.evaluate("document.querySelector('article').innerText")


def test_the_front_page_leads_everywhere(browser, address):
    browser.open(f"{address}/index.html")
    assert "Write a kernel once, as a Python function" in text_of(browser)
    assert "def axpy(a, x, y, out):" in text_of(browser)
    assert "pip install ." in text_of(browser)
    assert "make check" not in text_of(browser)  # for those who have a checkout
    assert browser.evaluate("document.querySelector('article img').naturalWidth") > 300
    cards = browser.evaluate(
        "Promise.all([...document.querySelectorAll('.cards a')].map(a => fetch(a.href)"
        ".then(answer => [a.href, answer.status])))"
    )
    assert len(cards) >= 5
    assert all(status == 200 for _, status in cards), cards


def test_the_sidebar_has_topics_and_each_page_once(browser, address):
    browser.open(f"{address}/index.html")
    topics = browser.evaluate(
        "[...document.querySelectorAll('.sidebar-tree .caption-text')].map(one => one.innerText)"
    )
    assert [topic.lower() for topic in topics] == [
        *("start", "write kernels", "run and tune", "library", "reference", "development")
    ]
    links = browser.evaluate(
        "[...document.querySelectorAll('.sidebar-tree a.reference')].map(one => one.href)"
    )
    assert len(links) == len(set(links)) > 60
    shown = browser.evaluate(
        "[...document.querySelectorAll('.sidebar-tree a.reference')]"
        ".filter(one => one.offsetParent).map(one => one.innerText)"
    )
    assert "For developers" in shown
    assert "Architecture" not in shown
    assert not [name for name in shown if name.endswith((".md", ".html"))]


@pytest.mark.parametrize("origin", ["numba-cuda", "cuda-c", "triton"])
def test_two_languages_are_side_by_side(browser, address, origin):
    browser.prefer("light", 1400)
    browser.open(f"{address}/docs/coming-from-{origin}.html")
    places = browser.evaluate(
        "[...document.querySelectorAll('.beside')[0].children]"
        ".map(one => [one.getBoundingClientRect().left, one.getBoundingClientRect().top])"
    )
    (left, top), (right, other_top) = places
    assert left < right
    assert top == other_top


@pytest.mark.parametrize(
    "page", ["index", "docs/getting-started", "docs/coming-from-cuda-c", "docs/how-fast"]
)
def test_a_narrow_page_does_not_scroll_sideways(browser, address, page):
    browser.prefer("dark", 400)
    browser.open(f"{address}/{page}.html")
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_notebook_shows_its_cells(browser, address):
    browser.open(f"{address}/notebooks/01-first-kernel.html")
    assert browser.evaluate("document.querySelectorAll('.cell_input').length") >= 5
    assert "@kd.kernel" in text_of(browser)


def test_the_gallery_shows_its_pictures(browser, address):
    browser.open(f"{address}/gallery.html")
    widths = browser.evaluate(
        "[...document.querySelectorAll('img.picture')].map(i => {i.loading = 'eager'; return i})"
        ".map(i => i.naturalWidth)"
    )
    assert len(widths) == 12
    assert all(widths), widths


def test_a_kernel_is_in_the_reference(browser, address):
    browser.open(f"{address}/api/stdlib_kernels.scan.html#stdlib_kernels.scan.calls.sum_chain")
    entry = "document.getElementById('stdlib_kernels.scan.calls.sum_chain')"
    assert "sum_chain(" in browser.evaluate(f"{entry}.innerText")
    assert len(browser.evaluate(f"{entry}.nextElementSibling.innerText")) > 20
    browser.open(f"{address}/api/warps.html#kerneldsl.ballot_sync")
    entry = browser.evaluate("document.getElementById('kerneldsl.ballot_sync').innerText")
    assert "ballot_sync(mask, predicate)" in entry
    assert "kd.shfl_down_sync" in text_of(browser).partition("activemask")[0]


def test_the_reference_begins_with_what_is_used_most(browser, address):
    browser.open(f"{address}/api/index.html")
    names = "[...document.querySelectorAll('table.names td:first-child')].map(one => one.innerText)"
    assert browser.evaluate(names)[:4] == ["kernel", "Kernel.forall", "Kernel[grid, block]", "func"]
    browser.open(f"{address}/api/kernels-and-launches.html")
    assert browser.evaluate(names)[:3] == ["kernel", "func", "Kernel"]


def test_an_entry_leads_to_its_source(browser, address):
    browser.open(f"{address}/api/kernels-and-launches.html#kerneldsl.kernel")
    source = browser.evaluate(
        "document.getElementById('kerneldsl.kernel').querySelector('a:has(.viewcode-link)').href"
    )
    browser.open(source)
    anchor = source.partition("#")[2]
    assert "def kernel" in browser.evaluate(f"document.getElementById('{anchor}').innerText")


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("ballot_sync", "api/warps.html"),
        ("occupancy", "docs/occupancy.html"),
        ("axpy", "index.html"),
        ("numba.cuda", "docs/coming-from-numba-cuda.html"),
    ],
)
def test_search_finds(browser, address, words, page):
    browser.open(f"{address}/search.html?q={words}")
    found = browser.wait_for(
        "[...document.querySelectorAll('#search-results li a')].map(a => a.href)"
        ".filter(link => link.includes(" + repr(page) + ")).length"
    )
    assert found
    results = browser.evaluate(
        "[...document.querySelectorAll('#search-results li > a')]"
        ".map(a => a.href.split('?')[0] + a.href.split('#').slice(1))"
    )
    assert len(results) == len(set(results)), results


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_follow_the_readers_scheme(browser, address, scheme):
    browser.prefer(scheme)
    browser.open(f"{address}/docs/language.html")
    colors = browser.evaluate(
        "(style => [style.color, style.backgroundColor])(getComputedStyle(document.body))"
    )
    ink, paper = (sum(map(int, color[4:-1].split(",")[:3])) for color in colors)
    assert (ink < paper) == (scheme == "light"), colors


def test_every_page_is_without_errors(browser, address, html):
    for page in sorted(html.rglob("*.html")):
        browser.open(f"{address}/{page.relative_to(html)}")
        assert not browser.errors, page.name
