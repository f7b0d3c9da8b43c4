"""Every `contextrender` command of the documents is one: its options exist, with such values."""

import argparse
import pkgutil

import pytest
from contextrender_bridge.base.paths import make_app_importable
from contextrender_bridge.cli import SUBCOMMANDS

from tests.packaging.documents import Told, of_the_distribution

TOLD = of_the_distribution()


def test_there_are_some() -> None:
    assert {"serve", "proxy", "wrap", "replay", "eval", "explain"} <= {one.words[1] for one in TOLD}


@pytest.mark.parametrize("one", TOLD, ids=lambda one: f"{one.document}: {' '.join(one.words)}")
def test_a_documented_command_is_understood(one: Told) -> None:
    make_app_importable()
    command = pkgutil.resolve_name(SUBCOMMANDS[one.words[1]].place)
    parser = argparse.ArgumentParser(prog=one.words[1])
    command.add_arguments(parser)
    parser.parse_args(one.words[2:])
