"""`/console`: the built page, from files beside this package, under a strict policy; and `/graph`,
as Jac's own viewer is asked: the caller's nodes and edges in pages.
"""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import InvalidRequest, NotFound
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

BUILT = Path(__file__).resolve().parents[2] / "console"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    # Contents of sessions are never markup here; were they ever, nothing of theirs could run.
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def console_routes() -> list[BaseRoute]:
    """The page and its assets. Only files there at the start are served."""
    files = {
        path.relative_to(BUILT).as_posix(): path
        for path in BUILT.rglob("*")
        if path.suffix in TYPES and path.is_file()
    }

    async def page(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if (path := files.get(name)) is None:
            raise NotFound("There is no such file; the console is at /console/.")
        # The names of assets change with their contents.
        age = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"
        return FileResponse(
            path, headers={**HEADERS, "cache-control": age, "content-type": TYPES[path.suffix]}
        )

    async def enter(_: Request) -> Response:
        return RedirectResponse("/console/", status_code=308)

    return [
        Route("/", enter, methods=["GET"]),
        Route("/console", enter, methods=["GET"]),
        Route("/console/{name:path}", page, methods=["GET"]),
    ]


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
