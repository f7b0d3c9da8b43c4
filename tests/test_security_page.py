"""Every claim of docs/security.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def test_every_claim_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    claims = [
        row for row in text.splitlines() if row.startswith("| ") and row != "| claim | test |"
    ]
    assert len(claims) > 15
    for claim in claims:
        named = NAMED.findall(claim)
        assert named, claim
        for path, name in named:
            assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{name}"
