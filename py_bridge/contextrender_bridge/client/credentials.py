"""The address and token of the local service: written by the server, found by every client."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from contextrender_bridge.base.errors import NoCredentials
from contextrender_bridge.base.paths import data_dir, write_private
from contextrender_bridge.base.settings import current_settings

FILE_NAME = "credentials.json"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Credentials:
    """The service's address and the caller's token."""

    url: str
    token: str = field(repr=False)

    def save(self, folder: Path) -> None:
        """Write the address and the token to `folder`, for clients of this user."""
        write_private(folder / FILE_NAME, json.dumps(asdict(self)) + "\n")


def is_local(url: str) -> bool:
    """Return whether an address is this machine's own."""
    return urlsplit(url).hostname in LOOPBACK


def load_credentials(folder: Path | None = None) -> Credentials:
    """Return the address and the token, from the environment or else from the server's file.

    Raise NoCredentials if the address or its token is not found.
    """
    return resolve_credentials(None, None, folder)


def resolve_credentials(
    url: str | None, token: str | None, folder: Path | None = None
) -> Credentials:
    """Return the service's address and token.

    Take each from the arguments, the environment or the local server, in this order. The server
    writes its address and token to a file in `folder`, by default the data folder. That token is
    never sent to another machine, so an address elsewhere needs a token of its own. Raise
    NoCredentials if the address or its token is not found.
    """
    url = (url or current_settings().url).rstrip("/")
    token = token or current_settings().token
    if url and token:
        return Credentials(url, token)
    # At least one of them must come from the local server's file.
    path = (folder or data_dir()) / FILE_NAME
    credentials = stored_credentials(path.parent)
    if url and not token and not is_local(url):
        raise NoCredentials(
            f"The token in {path} is not for {url}, which is not this machine: give its own, or "
            "set CONTEXTRENDER_TOKEN."
        )
    return Credentials(url or credentials.url, token or credentials.token)


def stored_credentials(folder: Path) -> Credentials:
    """Read the credentials that a server wrote to its data folder.

    Raise NoCredentials if there are none, or if they cannot be read.
    """
    path = folder / FILE_NAME
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Credentials(str(fields["url"]), str(fields["token"]))
    except FileNotFoundError:
        raise NoCredentials(
            f"There is no {path}: start `contextrender serve`, or set CONTEXTRENDER_URL and "
            "CONTEXTRENDER_TOKEN."
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NoCredentials(f"{path} cannot be read ({type(error).__name__}).") from None
