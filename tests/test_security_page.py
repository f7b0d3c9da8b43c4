"""Every claim of docs/security.md names tests that exist, and that run."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_claim_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    claims = [
        row for row in text.splitlines() if row.startswith("| ") and row != "| claim | test |"
    ]
    assert len(claims) > 30
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
