"""The address and token of the local service: written by the server, found by every client."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from contextrender_bridge.paths import data_dir, write_private

FILE_NAME = "credentials.json"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class NoCredentials(Exception):
    """No address or no token is known; the message says how to provide them."""


@dataclass(frozen=True)
class Credentials:
    """Where the service is and who is asking."""

    url: str
    token: str = field(repr=False)

    def save(self, folder: Path) -> None:
        """Write them to `folder` for clients of this user."""
        write_private(folder / FILE_NAME, json.dumps(asdict(self)) + "\n")


def load_credentials(folder: Path | None = None) -> Credentials:
    """`CONTEXTRENDER_URL` and `CONTEXTRENDER_TOKEN`, each else from the file the server wrote.

    The file's token never leaves this machine: when `CONTEXTRENDER_URL` names another one,
    `CONTEXTRENDER_TOKEN` must be set too. Raises NoCredentials.
    """
    url = os.environ.get("CONTEXTRENDER_URL", "").rstrip("/")
    token = os.environ.get("CONTEXTRENDER_TOKEN", "")
    if url and token:
        return Credentials(url, token)
    path = (folder or data_dir()) / FILE_NAME
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        found = Credentials(str(stored["url"]), str(stored["token"]))
    except FileNotFoundError:
        raise NoCredentials(
            f"There is no {path}: start `contextrender serve`, or set CONTEXTRENDER_URL and "
            "CONTEXTRENDER_TOKEN."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoCredentials(f"{path} cannot be read ({type(error).__name__}).") from None
    if url and not token and urlsplit(url).hostname not in LOOPBACK:
        raise NoCredentials(f"{path} is for this machine only: set CONTEXTRENDER_TOKEN for {url}.")
    return Credentials(url or found.url, token or found.token)


def resolve_credentials(url: str | None, token: str | None) -> Credentials:
    """Address and token: as given, else from the environment, else those of the local server.

    Raises NoCredentials.
    """
    url = (url or os.environ.get("CONTEXTRENDER_URL", "")).rstrip("/")
    token = token or os.environ.get("CONTEXTRENDER_TOKEN", "")
    if url and token:
        return Credentials(url, token)
    found = load_credentials()
    if url and not token and urlsplit(url).hostname not in LOOPBACK:
        raise NoCredentials(f"The local server's token is not for {url}: give its own token.")
    return Credentials(url or found.url, token or found.token)
