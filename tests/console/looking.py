"""Helpers for what a page shows."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.console.conftest import PATIENCE_MS, Console

Visit = Callable[..., Console]
expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=PATIENCE_MS)


def is_drawn(console: Console, selector: str, colours: int) -> bool:
    """Wait until a canvas has more than this many colours (a blank one has one). Return whether it
    does."""
    canvas = console.page.locator(selector)
    for _ in range(50):
        count: int = canvas.evaluate(
            """canvas => {
                const { width, height } = canvas;
                if (!width || !height) return 0;
                const copy = new OffscreenCanvas(width, height)
                    .getContext("2d", { willReadFrequently: true });
                copy.drawImage(canvas, 0, 0);
                const { data } = copy.getImageData(0, 0, width, height);
                return new Set(new Uint32Array(data.buffer)).size;
            }"""
        )
        if count > colours:
            return True
        console.page.wait_for_timeout(100)
    return False


def choice(console: Console, name: str | re.Pattern[str]) -> Any:
    return console.page.get_by_role("combobox", name=name, exact=True)
