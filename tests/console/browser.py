"""Debian's Chromium, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FLAGS = [
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """The path of Chromium. Skips the test where there is none."""
    if found := os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None):
        return found
    pytest.skip("there is no Chromium: apt-get install chromium")


@contextmanager
def running_browser() -> Iterator[Any]:
    """A browser until the block ends."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium()
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=FLAGS + sandbox)
        try:
            yield browser
        finally:
            browser.close()
