"""The console's built page at `/console`, and the caller's nodes and edges at `/graph`.

The page comes from files beside this package, under a strict policy. `/graph` answers as Jac's own
viewer does.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import ContextRenderError, InvalidRequest, NotFound
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

BUILT = Path(__file__).resolve().parents[2] / "console"
SERVED = (".html", ".js", ".css", ".svg")
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
    """Return the page and its assets. Only files there at the start are served."""
    files = {
        path.relative_to(BUILT).as_posix(): path
        for path in BUILT.rglob("*")
        if path.suffix in SERVED and path.is_file()
    }

    async def page(request: Request) -> Response:
        name = request.path_params.get("name") or "index.html"
        if (path := files.get(name)) is None:
            raise NotFound("There is no such file; the console is at /console/.")
        # The names of assets change with their contents.
        age = "public, max-age=31536000, immutable" if name.startswith("assets/") else "no-cache"
        return FileResponse(path, headers={**HEADERS, "cache-control": age})

    async def enter(_: Request) -> Response:
        return RedirectResponse("/console/", status_code=308)

    return [
        Route("/", enter, methods=["GET"]),
        Route("/console", enter, methods=["GET"]),
        Route("/console/{name:path}", page, methods=["GET"]),
    ]


Look = Callable[[Request, Mapping[str, Any]], Awaitable[Any]]
"""Runs `get_node` with these fields, for whoever sent the request; its reply, or an error."""


def graph_routes(look: Look) -> list[BaseRoute]:
    """`/graph` leads to the console's page; `/graph/data?node=ID&start=N` is one page of a node.

    A node is named by its id, or a session as `session:NAME`.
    """

    async def page(_: Request) -> Response:
        return RedirectResponse("/console/#/store", status_code=308)

    async def data(request: Request) -> Response:
        start = request.query_params.get("start", "0")
        if not start.isdecimal():
            raise InvalidRequest("start must be a whole number of at least 0.")
        node = request.query_params.get("node", "")
        (prefix, _, name) = node.partition(":")
        fields = {"session": name} if prefix == "session" and name else {"id": node}
        result = await look(request, {**fields, "start": int(start)})
        if isinstance(result, ContextRenderError):
            raise result
        return JSONResponse(_graph_of(result["reports"][0]))

    return [
        Route("/graph", page, methods=["GET"]),
        Route("/graph/data", data, methods=["GET"]),
    ]


def _graph_of(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node and its neighbours as `nodes` and `edges`; `next` is the page's next start."""
    labels, edges = {node["id"]: node["label"]}, []
    for edge in node["edges"]:
        if edge["end"]:
            labels[edge["id"]] = edge["label"] or edge["end"]
            ends = (node["id"], edge["id"])
            source, target = ends if edge["outgoing"] else ends[::-1]
            edges.append({"from": source, "to": target, "label": edge["kind"]})
    nodes = [{"id": id, "label": label} for id, label in labels.items()]
    return {"version": "1.0", "nodes": nodes, "edges": edges, "next": node["next"]}
