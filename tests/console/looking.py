"""What a test sees of a page."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.console.conftest import PATIENCE_MS, Console

Visit = Callable[..., Console]
expect = pytest.importorskip("playwright.sync_api", reason="playwright is not installed").expect
expect.set_options(timeout=PATIENCE_MS)


def drawn(console: Console, selector: str, colours: int) -> bool:
    """Whether a canvas comes to show more colours than these: a blank one has a single one."""
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
