"""Opens agents' files and stores: compressed and damaged ones, and those of running programs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

DECODER = json.JSONDecoder(strict=False)


def json_values(text: bytes | str) -> Iterator[object]:
    """Yield the JSON values of a line; None for a damaged part.

    A byte that is no UTF-8 is replaced.
    """
    told = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    rest = told.strip("\0 \t\r\n\ufeff")
    if not rest:
        yield None
    while rest:
        try:
            value, end = DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            yield None
            value, end = _last_object(rest), len(rest)
            if value is None:
                return
        yield value
        rest = rest[end:].lstrip("\0 \t\r\n,")


def _last_object(text: str) -> object:
    """Return the whole object behind half a line, as a program that was killed leaves it."""
    start = text.find('{"', 1)
    while start > 0:
        try:
            value, end = DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = 0
        if end == len(text):
            return value
        start = text.find('{"', start + 1)
    return None


def open_store(path: Path) -> sqlite3.Connection:
    """Open a store for reading; also in a folder where no log of it may be made."""
    address = path.absolute().as_uri()
    store = sqlite3.connect(f"{address}?mode=ro", uri=True)
    try:
        store.execute("select 1 from sqlite_master").fetchone()
    except sqlite3.OperationalError:
        store.close()
        store = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)
    return store


def lines_in(path: Path) -> Iterator[bytes]:
    """Yield a file's lines, also of a compressed one. Raise EOFError if it breaks off."""
    with path.open("rb") as raw:
        if path.suffix != ".zst":
            yield from raw
            return
        import zstandard

        rest, reader = b"", zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
        while chunk := raw.read(1 << 20):
            *lines, rest = (rest + reader.decompress(chunk)).split(b"\n")
            yield from lines
        yield rest
        if not reader.eof and not reader.unused_data:
            raise EOFError
