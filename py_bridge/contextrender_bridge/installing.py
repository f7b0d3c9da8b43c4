"""How to install a part that is missing, from where the distribution itself was installed."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlsplit

NAME = "contextrender"


def how_to_install(extra: str) -> str:
    """A command that adds an extra, by the record that installers leave (PEP 610)."""
    return f"`pip install '{_source(f'{NAME}[{extra}]', f'[{extra}]')}'`"


def _source(named: str, extra: str) -> str:
    try:
        record = json.loads(distribution(NAME).read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        record = {}
    url = str(record.get("url") or "")
    if not url:  # it came from an index
        return named
    if url.startswith("file:"):
        return unquote(urlsplit(url).path) + extra
    kind = record.get("vcs_info", {}).get("vcs")
    return f"{named} @ {kind}+{url}" if kind else f"{named} @ {url}"
