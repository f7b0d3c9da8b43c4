"""The client's types equal the app's: the endpoints' fields and replies."""

import inspect
import re
from dataclasses import fields
from typing import Any, get_type_hints

import pytest
from contextrender_bridge import AsyncContextRender, ContextRender
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.server.runtime import load_app

from clients.typescript.make_replies import METHODS, reply_files

# Parameters of the clients only, and fields that they compute themselves.
CLIENT_PARAMETERS = {"self", "token", "history_key"}
COMPUTED_FIELDS = {"offset", "prefix"}
# Paging fields, which the clients do not use.
PAGING_FIELDS = {"rows", "offset", "sort", "descending"}


@pytest.fixture(scope="module")
def walkers() -> dict[str, Any]:
    return load_app(app_dir())


def fields_of(walker: Any) -> set[str]:
    return {field.name for field in fields(walker) if field.init} - {"reports"}


def test_reply_types_equal_served_replies(walkers: dict[str, Any]) -> None:
    for path, text in reply_files(walkers).items():
        assert path.read_text() == text, "run clients/typescript/make_replies.py"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("client", [ContextRender, AsyncContextRender])
def test_client_parameters_equal_endpoint_fields(
    walkers: dict[str, Any], client: Any, method: str
) -> None:
    parameters = set(inspect.signature(getattr(client, method)).parameters) - CLIENT_PARAMETERS
    assert parameters == fields_of(walkers[method]) - COMPUTED_FIELDS - PAGING_FIELDS


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("client", [ContextRender, AsyncContextRender])
def test_return_types_equal_reports(walkers: dict[str, Any], client: Any, method: str) -> None:
    return_type = plain(get_type_hints(getattr(client, method))["return"])
    assert plain(get_type_hints(walkers[method])["reports"]) == f"list[{return_type}]"


def test_api_document_lists_endpoint_fields(walkers: dict[str, Any]) -> None:
    page = (app_dir() / "docs" / "api.md").read_text().replace("\n  ", " ")
    rows = re.findall(r"^- ((?:`\w+`(?:, )?)+) .*?: (.*)$", page.split("## ")[1], re.MULTILINE)
    documented_fields = {
        walker: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", description)))
        for names, description in rows
        for walker in re.findall(r"\w+", names)
    }
    assert documented_fields == {name: fields_of(walker) for name, walker in walkers.items()}


def plain(hint: Any) -> str:
    """Return a type as text, without its module."""
    text = hint.__name__ if isinstance(hint, type) and "[" not in str(hint) else str(hint)
    text = re.sub(r"contextrender_bridge\.client\.replies\.|views\.\w+\.|typing\.", "", text)
    text = re.sub(r"^ClassVar\[(.*)\]$", r"\1", text)
    return text.replace("dict[str, Any]", "Json").replace("dict[str, object]", "Json")
