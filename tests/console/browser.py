"""Debian's Chromium, driven by Playwright."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

FLAGS = [
    *("--headless", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
NAMES = ("chromium", "chromium-browser", "google-chrome")
INSTALL_SECONDS = 300


def chromium() -> str:
    """The path of Chromium, installed where this is a Debian and we may. Skips the test if not."""
    if named := os.environ.get("CHROMIUM"):
        return named
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        return found
    apt = shutil.which("apt-get")
    if apt is None or os.geteuid() != 0:
        pytest.skip("there is no Chromium, and it cannot be installed without apt-get and root")
    command = [apt, "install", "--yes", "--no-install-recommends", "chromium"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for attempt in ([apt, "update"], command):
        done = subprocess.run(
            attempt, env=environment, capture_output=True, text=True, timeout=INSTALL_SECONDS
        )
    if done.returncode or (found := shutil.which("chromium")) is None:
        pytest.skip(f"Chromium cannot be installed: {done.stderr.strip()[-200:]}")
    return found


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
