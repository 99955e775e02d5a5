"""A browser, the explorer and the pages; a test fails on errors in the console and on requests to other hosts."""

import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from .chromium import find_chromium

PAGES = Path(__file__).parents[2] / "docs" / "_build"
OURS = ("http://127.0.0.1", "data:", "blob:")


@pytest.fixture(scope="session")
def chromium():
    """Return one browser context for all tests, which keeps its cache."""
    path = find_chromium() or pytest.fail("No Chromium runs here: `python tests/browser/chromium.py` installs one.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser.new_context(reduced_motion="reduce")
        browser.close()


@pytest.fixture
def opened(chromium):
    """Return a function that opens a page; check at the end that no error was logged."""
    pages, errors = [], []

    def open_page(address, *, width=1200, scheme="light"):
        page = chromium.new_page()
        pages.append(page)
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        page.set_default_timeout(0)  # a busy machine takes its time; pytest's own timeout ends what never comes
        page.on("console", lambda message: is_error(message) and errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("request", lambda request: request.url.startswith(OURS) or errors.append(request.url))
        page.goto(address)
        return page

    yield open_page
    for page in pages:
        page.close()
    assert errors == []


def is_error(message):
    """Return whether a message of the console is an error or warning, but for the icon, which the pages do not have."""
    return message.type in ("error", "warning") and not message.location["url"].endswith("/favicon.ico")


@pytest.fixture(scope="session")
def explorer(tmp_path_factory):
    """Start the explorer as a user does, and return its address."""
    command = [sys.executable, "-m", "posenc_backends", "explore", "--port", "0", "--no-browser"]
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    folder = tmp_path_factory.mktemp("working_directory")
    with subprocess.Popen(command, stdout=-1, text=True, cwd=folder, env=environment) as process:
        line = process.stdout.readline()
        assert line.startswith("The explorer is at http://127.0.0.1:"), line
        yield line.split()[4]
        process.terminate()


@pytest.fixture(scope="session")
def pages():
    """Return the address of the pages, which `nox -s docs` has built."""
    if not (PAGES / "index.html").exists():
        pytest.fail(f"No pages in {PAGES}; `nox -s docs` builds them.")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(PAGES))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
