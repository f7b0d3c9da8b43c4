"""The bridge's types against the app's own: the walkers' fields and the views they report."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from contextrender_bridge import AsyncContextRender, ContextRender
from contextrender_bridge.base.paths import app_dir

from clients.typescript.make_replies import METHODS

READ = r"""
import dataclasses, json, re, sys
from pathlib import Path
from typing import get_type_hints
import contextrender_bridge.server
from contextrender_bridge.server.runtime import load_app
from clients.typescript.make_replies import made

walkers = load_app(Path(sys.argv[1]))

def name(kind):
    plain = isinstance(kind, type) and not hasattr(kind, "__origin__")
    text = kind.__name__ if plain else str(kind)
    text = re.sub(r"(contextrender_app\.)?views\.\w+\.|typing\.", "", text)
    return re.sub(r"^ClassVar\[(.*)\]$", r"\1", text)

fields = {
    walker: {f.name: name(get_type_hints(kind)[f.name]) for f in dataclasses.fields(kind) if f.init}
    for walker, kind in walkers.items()
}
reports = {walker: name(get_type_hints(kind)["reports"]) for walker, kind in walkers.items()}
files = {str(path): text for path, text in made(walkers).items()}
print(json.dumps({"fields": fields, "reports": reports, "files": files}))
"""

# Of the clients alone: they find the offset by themselves, and serve several users.
OWN = {"self", "token", "line"}
FOUND = {"offset", "prefix"}
# A page of a long explanation, for those who show one: a client gets all of it.
PAGED = {"rows", "first", "sort", "down"}


@pytest.fixture(scope="module")
def served() -> dict[str, Any]:
    command = [sys.executable, "-c", READ, str(app_dir())]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=app_dir())
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_the_replies_types_are_those_that_are_served(served: dict[str, Any]) -> None:
    for path, text in served["files"].items():
        assert Path(path).read_text() == text, "run clients/typescript/make_replies.py"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("client", [ContextRender, AsyncContextRender])
def test_requests_have_the_fields_that_are_served(
    served: dict[str, Any], client: Any, method: str
) -> None:
    given = set(inspect.signature(getattr(client, method)).parameters) - OWN
    taken = set(served["fields"][method]) - {"reports"}
    assert given == taken - FOUND - PAGED


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("client", [ContextRender, AsyncContextRender])
def test_methods_give_what_is_reported(served: dict[str, Any], client: Any, method: str) -> None:
    given = plain(get_type_hints(getattr(client, method))["return"])
    assert served["reports"][method] == f"list[{given}]"


def test_the_page_of_the_api_names_the_fields_that_are_served(served: dict[str, Any]) -> None:
    page = (app_dir() / "docs" / "api.md").read_text()
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (.*) \|$", page.split("## ")[1], re.MULTILINE)
    told = {
        walker: set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", fields)))
        for walkers, fields in rows
        for walker in re.findall(r"\w+", walkers)
    }
    taken = {name: set(fields) - {"reports"} for name, fields in served["fields"].items()}
    assert told == taken


def plain(hint: Any) -> str:
    """A type as text, whatever module it came from."""
    text = hint.__name__ if isinstance(hint, type) and "[" not in str(hint) else str(hint)
    text = re.sub(r"contextrender_bridge\.client\.replies\.|views\.\w+\.|typing\.", "", text)
    return text.replace("dict[str, Any]", "Json").replace("dict[str, object]", "Json")
