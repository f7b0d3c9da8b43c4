"""Every claim of docs/security.md and docs/runtime.md names tests that exist, and that run."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize(("page", "least"), [("security.md", 30), ("runtime.md", 10)])
def test_every_claim_names_tests_that_exist(page: str, least: int) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    rows = [row for row in text.splitlines() if row.startswith("| ")]
    claims = [row for row in rows if not row.endswith("| test |")]
    assert len(claims) > least
    for claim in claims:
        named = NAMED.findall(claim)
        assert named, claim
        for path, name in named:
            assert name in running_tests(path), f"{path}::{name}"


@cache
def running_tests(path: str) -> set[str]:
    """The tests of a file that no mark leaves out or expects to fail."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {
        found.name
        for found in tree.body
        if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(
            re.search(r"\.(skip|xfail)\b", ast.unparse(mark)) for mark in found.decorator_list
        )
    }
