"""`/graph`, as Jac's own viewer is asked: the page, and the caller's nodes and edges in pages."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

from contextrender_bridge.base.errors import InvalidRequest
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

Look = Callable[[Request, bytes], Awaitable[Response]]
"""Runs `look_at_node` with that body, for whoever sent the request."""


def graph_routes(look: Look) -> list[BaseRoute]:
    """`/graph` leads to the console's page; `/graph/data?node=ID&start=N` is one page of a node."""

    async def page(_: Request) -> Response:
        return RedirectResponse("/console/#/store", status_code=308)

    async def data(request: Request) -> Response:
        asked: dict[str, Any] = {"id": request.query_params.get("node", "")}
        start = request.query_params.get("start", "0")
        if not start.isdecimal():
            raise InvalidRequest("start must be a whole number of at least 0.")
        found = await look(request, json.dumps(asked | {"start": int(start)}).encode())
        if found.status_code != 200:
            return found
        return JSONResponse(_drawn(json.loads(bytes(found.body))["reports"][0]))

    return [
        Route("/graph", page, methods=["GET"]),
        Route("/graph/data", data, methods=["GET"]),
    ]


def _drawn(node: dict[str, Any]) -> dict[str, Any]:
    """A node and those next to it, as `nodes` and `edges`; `next` is the page's next start."""
    near = {edge["id"]: edge["label"] or edge["end"] for edge in node["edges"] if edge["end"]}
    ends = [
        (node["id"], edge["id"]) if edge["outgoing"] else (edge["id"], node["id"])
        for edge in node["edges"]
    ]
    return {
        "version": "1.0",
        "nodes": [
            {"id": id, "label": label} for id, label in {node["id"]: node["label"], **near}.items()
        ],
        "edges": [
            {"from": source, "to": target, "label": edge["kind"]}
            for (source, target), edge in zip(ends, node["edges"], strict=True)
            if edge["end"]
        ],
        "next": node["next"],
    }
