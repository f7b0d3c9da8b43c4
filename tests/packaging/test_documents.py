"""Every `contextrender` command of the documents is one, with options and values that exist; every
link between them leads to a file, and to a heading of it."""

import argparse
import pkgutil
import re

import pytest
from contextrender_bridge.base.paths import make_app_importable
from contextrender_bridge.cli import SUBCOMMANDS

from tests.packaging.documents import Told, texts, told
from tests.server.servers import REPOSITORY

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TEXTS = dict(texts())
TOLD = [one for one in told() if one.words[0] == "contextrender"]


@pytest.mark.parametrize("one", TOLD, ids=lambda one: f"{one.document}: {' '.join(one.words)}")
def test_a_documented_command_is_understood(one: Told) -> None:
    make_app_importable()
    command = pkgutil.resolve_name(SUBCOMMANDS[one.words[1]].place)
    parser = argparse.ArgumentParser(prog=one.words[1])
    command.add_arguments(parser)
    parser.parse_args(one.words[2:])


@pytest.mark.parametrize("document", TEXTS)
def test_links_lead_somewhere(document: str) -> None:
    for link in LINK.findall(TEXTS[document]):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        here = REPOSITORY / document
        target = (here.parent / name).resolve() if name else here
        assert target.exists(), link
        if anchor:
            heads = (head.lower() for head in HEADING.findall(target.read_text("utf-8")))
            # As GitHub makes anchors of headings.
            assert anchor in {re.sub(r"[^\w\- ]", "", one).replace(" ", "-") for one in heads}, link
