"""The bridge's types against the app's own: the walkers' fields and the views they report."""

import inspect
import re
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from contextrender_bridge import AsyncContextRender, ContextRender
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.runtime import load_app

from clients.typescript.make_replies import METHODS, reply_files

# Of the clients alone: they find the offset by themselves, and serve several users.
OWN = {"self", "token", "line"}
FOUND = {"offset", "prefix"}
# A page of a long explanation, for those who show one: a client gets all of it.
PAGED = {"rows", "offset", "sort", "descending"}


@pytest.fixture(scope="module")
def walkers() -> dict[str, Any]:
    return load_app(app_dir())


def fields_of(walker: Any) -> set[str]:
    return {field.name for field in fields(walker) if field.init} - {"reports"}


def test_the_replies_types_are_those_that_are_served(walkers: dict[str, Any]) -> None:
    for path, text in reply_files(walkers).items():
        assert path.read_text() == text, "run clients/typescript/make_replies.py"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("client", [ContextRender, AsyncContextRender])
def test_requests_have_the_fields_that_are_served(
    walkers: dict[str, Any], client: Any, method: str
) -> None:
    given = set(inspect.signature(getattr(client, method)).parameters) - OWN
    assert given == fields_of(walkers[method]) - FOUND - PAGED


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("client", [ContextRender, AsyncContextRender])
def test_methods_give_what_is_reported(walkers: dict[str, Any], client: Any, method: str) -> None:
    given = plain(get_type_hints(getattr(client, method))["return"])
    reports = plain(get_type_hints(walkers[method])["reports"])
    assert reports == f"list[{given}]"


def test_the_page_of_the_api_names_the_fields_that_are_served(walkers: dict[str, Any]) -> None:
    page = (app_dir() / "docs" / "api.md").read_text().replace("\n  ", " ")
    rows = re.findall(r"^- ((?:`\w+`(?:, )?)+) .*?: (.*)$", page.split("## ")[1], re.MULTILINE)
    told = {
        walker: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", named)))
        for names, named in rows
        for walker in re.findall(r"\w+", names)
    }
    assert told == {name: fields_of(walker) for name, walker in walkers.items()}


def plain(hint: Any) -> str:
    """A type as text, whatever module it came from."""
    text = hint.__name__ if isinstance(hint, type) and "[" not in str(hint) else str(hint)
    text = re.sub(r"contextrender_bridge\.client\.replies\.|views\.\w+\.|typing\.", "", text)
    text = re.sub(r"^ClassVar\[(.*)\]$", r"\1", text)
    return text.replace("dict[str, Any]", "Json").replace("dict[str, object]", "Json")
