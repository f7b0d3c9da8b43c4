"""The console's page at `/console`, and the caller's nodes and edges at `/graph`.

The page's built files are in the package, and are sent with a strict content security policy.
`/graph/data` has the format of Jac's own viewer.
"""

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import InvalidRequest, NotFound
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

CONSOLE = Path(__file__).resolve().parents[2] / "console"
SUFFIXES = (".html", ".js", ".css", ".svg")
HEADERS = {
    # The page never uses contents of sessions as markup. Even if it did, no script could run.
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
    """Return the routes of the console's page and assets.

    They serve only files that exist when this function is called.
    """
    files = {
        path.relative_to(CONSOLE).as_posix(): path
        for path in CONSOLE.rglob("*")
        if path.suffix in SUFFIXES and path.is_file()
    }

    async def page(request: Request) -> Response:
        """Answer with a file of the console; without a name, with `index.html`."""
        name = request.path_params.get("name") or "index.html"
        if (path := files.get(name)) is None:
            raise NotFound("There is no such file; the console is at /console/.")
        # An asset's name changes with its contents, so browsers may cache it for ever.
        is_asset = name.startswith("assets/")
        cache = "public, max-age=31536000, immutable" if is_asset else "no-cache"
        return FileResponse(path, headers={**HEADERS, "cache-control": cache})

    async def redirect(_: Request) -> Response:
        return RedirectResponse("/console/", status_code=308)

    return [
        Route("/", redirect, methods=["GET"]),
        Route("/console", redirect, methods=["GET"]),
        Route("/console/{name:path}", page, methods=["GET"]),
    ]


GetNode = Callable[[Request, Mapping[str, Any]], Awaitable[Any]]
"""A function that runs the walker `get_node` with these fields for the request's user. It returns
the reply, or raises an error."""


def graph_routes(get_node: GetNode) -> list[BaseRoute]:
    """Return the routes `/graph`, which redirects to the console, and `/graph/data`.

    `/graph/data?node=ID&start=N` returns a page of a node's edges. ID is a node's id, or
    `session:NAME`.
    """

    async def page(_: Request) -> Response:
        return RedirectResponse("/console/#/store", status_code=308)

    async def data(request: Request) -> Response:
        """Answer with a page of the node's edges, for the request's user."""
        start = request.query_params.get("start", "0")
        if not start.isdecimal():
            raise InvalidRequest("start must be a whole number of at least 0.")
        node = request.query_params.get("node", "")
        (prefix, _, name) = node.partition(":")
        fields = {"session": name} if prefix == "session" and name else {"id": node}
        result = await get_node(request, {**fields, "start": int(start)})
        return JSONResponse(_graph_of(result["reports"][0]))

    return [
        Route("/graph", page, methods=["GET"]),
        Route("/graph/data", data, methods=["GET"]),
    ]


def _graph_of(node: dict[str, Any]) -> dict[str, Any]:
    """Return a report of `get_node` in the format of Jac's viewer.

    `nodes` has the node and its neighbours, `edges` has the edges between them, and `next` is the
    start of the next page. Omit an edge without `end`, the type of its neighbour, because that
    neighbour cannot be read.
    """
    labels, edges = {node["id"]: node["label"]}, []
    for edge in node["edges"]:
        if not edge["end"]:
            continue
        neighbour = edge["id"]  # The id in an edge is the one of its other end.
        labels[neighbour] = edge["label"] or edge["end"]
        source, target = node["id"], neighbour
        if not edge["outgoing"]:
            source, target = target, source
        edges.append({"from": source, "to": target, "label": edge["kind"]})
    nodes = [{"id": id, "label": label} for id, label in labels.items()]
    return {"version": "1.0", "nodes": nodes, "edges": edges, "next": node["next"]}
