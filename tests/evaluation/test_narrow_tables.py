"""Tables on a terminal of 80 columns wrap names and heads without losing letters."""

import re
from io import StringIO

import pytest
from contextrender_bridge.evaluation.tables import Rows
from rich.console import Console

NAME = "shown within an automatic budget, nothing read again"
HEADS = ("policy", "share of these steps", "share of their values", "dollars per run")


@pytest.mark.parametrize("width", [60, 80])
def test_table_wraps_without_losing_letters(width: int) -> None:
    rows = [(NAME, "100.0% [95.1,100.0]", "1,297,363", "$1,234.56")]
    out = StringIO()
    Console(file=out, width=width).print(Rows("", HEADS, rows))
    output = out.getvalue()
    assert max(map(len, output.splitlines())) <= width and "…" not in output
    for text in (*HEADS, *rows[0]):
        assert all(word in output for word in re.split(r"\s", text)), text
    figures = "1,297,363", "$1,234.56"
    assert all(any(figure in line for line in output.splitlines()) for figure in figures)
