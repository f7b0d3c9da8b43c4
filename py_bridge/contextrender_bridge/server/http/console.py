"""`/console`: the built page, from files beside this package, under a strict policy."""

from pathlib import Path

from contextrender_bridge.base.errors import NotFound
from starlette.requests import Request
from starlette.responses import FileResponse, RedirectResponse, Response
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


def console_link(url: str, code: str, place: str = "") -> str:
    """The page's address with a code that works once; `place` is what to show.

    What follows `#` is never sent to a server; the page takes the code out of the address at once.
    """
    return f"{url}/console/#code={code}" + (f"&to={place}" if place else "")
