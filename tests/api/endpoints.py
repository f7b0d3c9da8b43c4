"""Every endpoint there is, and a call of each."""

from dataclasses import fields
from typing import Any

from tests.api.conftest import Service

NEEDS: dict[str, dict[str, Any]] = {
    "note_usage": {"used": {"messages": 3, "tokens": [1, 0, 0, 0, 1]}},
    "recall": {"results": [3]},
    "read_message": {"position": 3},
    "remedies": {"turn": 6, "position": 7, "budget": 600},
    "search": {"query": "ORD-1001"},
    "trace_value": {"value": "ORD-1001"},
}


def endpoints(service: Service) -> dict[str, list[str]]:
    return {
        name: [field.name for field in fields(walker) if field.init and field.name[0] != "_"]
        for name, walker in service.walkers.items()
    }


def of_a_session(service: Service) -> list[str]:
    begin_one = ("sync", "render", "import_session")
    found = endpoints(service).items()
    return [name for name, named in found if "session" in named and name not in begin_one]


def example(walker: str, session: str) -> dict[str, Any]:
    """A call that is right, if the session is there."""
    if walker in ("advise_all", "list_sessions", "holdout", "total_savings"):
        return {}
    if walker in ("sync", "render"):
        return {"session": session, "messages": [{"role": "user", "content": "Hello."}]}
    if walker == "import_session":
        return {"session": session, "data": {}}
    return {"session": session, **NEEDS.get(walker, {})}
