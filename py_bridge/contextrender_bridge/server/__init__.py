"""The service: it runs the Jac app's walkers for HTTP requests.

Routes: `POST /walker/NAME`, `POST /user/login`, `GET /healthz` and `/metrics`, the page and its
sign-in at `/console/`, and the proxy at `/v1/` and `/s/`. The Jac runtime's own routes are not
served.
"""

from typing import Any

from contextrender_bridge.base.settings import set_for_library

__all__ = ["build_app"]

# As a plugin, jac-scale would first compile its own HTTP server, which is not used here.
set_for_library("JAC_DISABLED_PLUGINS", "jac-scale:*")


def __getattr__(name: str) -> Any:
    """Import `build_app` at its first use, because it loads the Jac runtime."""
    if name == "build_app":
        from contextrender_bridge.server.app import build_app

        return build_app
    raise AttributeError(name)
