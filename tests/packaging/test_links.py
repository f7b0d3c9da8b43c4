"""Every link between the documents leads to a file, and to a heading of it."""

import re

import pytest

from tests.packaging.documents import texts
from tests.server.servers import REPOSITORY

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TEXTS = dict(texts())


@pytest.mark.parametrize("document", TEXTS)
def test_links_lead_somewhere(document: str) -> None:
    for link in LINK.findall(TEXTS[document]):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        target = (
            (REPOSITORY / document).parent / name if name else REPOSITORY / document
        ).resolve()
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text("utf-8")), link


def anchors(text: str) -> set[str]:
    """The headings, as GitHub makes anchors of them."""
    heads = (head.lower() for head in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in heads}
