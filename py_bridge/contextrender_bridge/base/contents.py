"""The content codings of HTTP bodies, as far as this installation can read them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

READABLE = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})


class Decoder:
    """A reader of a body in pieces. It returns nothing for what it cannot read."""

    def __init__(self, codings: str) -> None:
        """`codings` is the value of `content-encoding`; several are in the order of their use."""
        names = [name.strip().lower() for name in codings.split(",")]
        self._steps = [step for name in reversed(names) if (step := _step(name))]
        self.is_broken = any(_step(name) is None for name in names if name not in ("", "identity"))

    def feed(self, piece: bytes) -> bytes:
        """Return the text of the next piece; empty if it cannot be read."""
        if self.is_broken:
            return b""
        try:
            for step in self._steps:
                piece = step(piece)
        except Exception:
            # Each library has errors of its own.
            self.is_broken = True
            return b""
        return piece


def decoded(codings: str, body: bytes, max_bytes: int) -> bytes:
    """Return the content of a body, cut at `max_bytes` bytes; empty if it cannot be read."""
    decoder = Decoder(codings)
    content = bytearray()
    for at in range(0, len(body), 2**16):
        content += decoder.feed(body[at : at + 2**16])
        if len(content) >= max_bytes:
            break
    return b"" if decoder.is_broken else bytes(content[:max_bytes])


def _step(name: str) -> Callable[[bytes], bytes] | None:
    if name in ("gzip", "x-gzip"):
        return _Gzip().feed
    if name == "deflate":
        return _Deflate().feed
    if name == "br":
        return _brotli()
    return _zstd() if name == "zstd" else None


class _Gzip:
    """A reader of gzip members, one after the other, as RFC 1952 allows."""

    def __init__(self) -> None:
        self._reader = zlib.decompressobj(wbits=31)

    def feed(self, piece: bytes) -> bytes:
        """Return the text of a piece."""
        content = self._reader.decompress(piece)
        while self._reader.eof and (next_member := self._reader.unused_data):
            self._reader = zlib.decompressobj(wbits=31)
            content += self._reader.decompress(next_member)
        return content


class _Deflate:
    """A reader of deflate with zlib's header (RFC 9110), or without, as some servers send it."""

    def __init__(self) -> None:
        self._reader: Any = None

    def feed(self, piece: bytes) -> bytes:
        """Return the text of a piece."""
        if self._reader is None:
            first = int.from_bytes(piece[:2], "big")
            has_header = first >> 8 & 15 == 8 and first % 31 == 0
            self._reader = zlib.decompressobj(wbits=15 if has_header else -15)
        content: bytes = self._reader.decompress(piece)
        return content


def _brotli() -> Callable[[bytes], bytes] | None:
    try:
        brotli = import_module("brotli")
    except ImportError:
        return None
    reader: Callable[[bytes], bytes] = brotli.Decompressor().process
    return reader


def _zstd() -> Callable[[bytes], bytes] | None:
    try:
        zstandard = import_module("zstandard")
    except ImportError:
        return None
    reader: Callable[[bytes], bytes] = zstandard.ZstdDecompressor().decompressobj().decompress
    return reader
