"""The bridge's types against the app's own: the walkers' fields and the views they report."""

import inspect
import json
import re
import subprocess
import sys
from typing import Any, get_type_hints

import pytest
from contextrender_bridge import AsyncContextRender, ContextRender
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.client import replies

from clients.typescript.make_replies import CONSOLE

READ = r"""
import dataclasses, json, re, sys
from pathlib import Path
from typing import get_type_hints
import contextrender_bridge.server
from contextrender_bridge.server.runtime import load_app
from clients.typescript.make_replies import of_the_console

walkers = load_app(Path(sys.argv[1]))
views = {
    name: kind
    for module in [m for m in list(sys.modules) if ".views." in f".{m}"]
    for name, kind in vars(sys.modules[module]).items()
}

def name(kind):
    plain = isinstance(kind, type) and not hasattr(kind, "__origin__")
    text = kind.__name__ if plain else str(kind)
    return re.sub(r"(contextrender_app\.)?views\.\w+\.|typing\.", "", text)

fields = {
    walker: {f.name: name(get_type_hints(kind)[f.name]) for f in dataclasses.fields(kind) if f.init}
    for walker, kind in walkers.items()
}
reports = {walker: name(get_type_hints(kind)["reports"]) for walker, kind in walkers.items()}
hints = {kind: get_type_hints(views[kind]) for kind in sys.argv[2:]}
shapes = {
    kind: {field: name(hint) for field, hint in found.items() if field[0] != "_"}
    for kind, found in hints.items()
}
console = of_the_console(walkers)
print(json.dumps({"fields": fields, "reports": reports, "shapes": shapes, "console": console}))
"""

VIEWS = [name for name, kind in vars(replies).items() if hasattr(kind, "__required_keys__")]
METHODS = [
    "delete_session",
    "explain",
    "export_session",
    "import_session",
    "inspect_session",
    "list_sessions",
    "recall",
    "render",
    "sync",
]
# Of the clients alone: they find the offset by themselves, and serve several users.
OWN = {"self", "token", "line"}
FOUND = {"offset", "prefix"}
# A page of a long explanation, for those who show one: a client gets all of it.
PAGED = {"rows", "first", "sort", "down"}


@pytest.fixture(scope="module")
def served() -> dict[str, Any]:
    command = [sys.executable, "-c", READ, str(app_dir()), *VIEWS]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=app_dir())
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("view", VIEWS)
def test_replies_have_the_fields_that_are_served(served: dict[str, Any], view: str) -> None:
    ours = {name: plain(hint) for name, hint in get_type_hints(getattr(replies, view)).items()}
    theirs = {name: plain(hint) for name, hint in served["shapes"][view].items()}
    assert ours == theirs


def test_the_console_has_the_types_that_are_served(served: dict[str, Any]) -> None:
    assert CONSOLE.read_text() == served["console"], "run clients/typescript/make_replies.py"


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
