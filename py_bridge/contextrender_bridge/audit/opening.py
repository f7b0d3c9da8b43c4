"""Opens agents' files and stores, even if they are compressed, damaged or in use."""

import codecs
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

DECODER = json.JSONDecoder(strict=False)


def json_values(text: bytes | str) -> Iterator[object]:
    """Yield the JSON values in a line, of which there may be several, and None for damaged text.

    Invalid UTF-8 is replaced. An empty line counts as damaged. After damaged text, only a complete
    object at the end of the line is yielded.
    """
    decoded = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    remaining_text = decoded.strip("\0 \t\r\n\ufeff")
    if not remaining_text:
        yield None
    while remaining_text:
        try:
            value, end = DECODER.raw_decode(remaining_text)
        except (ValueError, RecursionError):
            yield None
            last_object = _last_object(remaining_text)
            if last_object is not None:
                yield last_object
            return
        yield value
        # Several values may be separated by white space, zero bytes or commas.
        remaining_text = remaining_text[end:].lstrip("\0 \t\r\n,")


def _last_object(text: str) -> object:
    """Return the complete object at the end of a damaged line; None if there is none.

    A program that is killed while it writes leaves half a line. When it runs again, it appends the
    next object to that line.
    """
    # Try each position at which an object may begin.
    start = text.find('{"', 1)
    while start > 0:
        try:
            value, end = DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = 0  # no complete object begins at `start`
        if end == len(text):
            return value
        start = text.find('{"', start + 1)
    return None


def open_store(path: Path) -> sqlite3.Connection:
    """Open a SQLite store read-only, even in a folder that cannot be written.

    SQLite cannot create its log file there. So the store is opened as immutable, which needs none.
    """
    address = path.absolute().as_uri()
    store = sqlite3.connect(f"{address}?mode=ro", uri=True)
    try:
        store.execute("select 1 from sqlite_master").fetchone()
    except sqlite3.OperationalError:
        store.close()
        store = sqlite3.connect(f"{address}?mode=ro&immutable=1", uri=True)
    return store


def to_utf8(raw: bytes) -> bytes:
    """Return the contents of a text file in UTF-8, even if it is UTF-16 with a byte order mark."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace").encode()
    return raw


def lines_in(path: Path) -> Iterator[bytes]:
    """Yield the lines of a plain or zstd-compressed file.

    Lines of a plain file have their newline; lines of a compressed file, or of a file in UTF-16, do
    not. Raise EOFError if a compressed file is cut off.
    """
    with path.open("rb") as raw:
        if path.suffix != ".zst":
            has_utf16_mark = raw.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            raw.seek(0)
            yield from to_utf8(raw.read()).splitlines() if has_utf16_mark else raw
            return
        import zstandard

        # `partial_line` is the beginning of a line whose end is in a later chunk.
        partial_line, frame = b"", None
        while chunk := raw.read(1 << 20):
            while chunk:
                frame = frame or zstandard.ZstdDecompressor().decompressobj()
                *lines, partial_line = (partial_line + frame.decompress(chunk)).split(b"\n")
                yield from lines
                # A compressed file may have several frames. After the end of one frame, the rest of
                # the chunk belongs to the next one.
                chunk = frame.unused_data
                if frame.eof:
                    frame = None
        yield partial_line  # the last line may have no newline
        if frame is not None:
            raise EOFError
