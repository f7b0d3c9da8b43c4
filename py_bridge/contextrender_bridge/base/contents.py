"""The content codings of HTTP bodies, as far as this installation can read them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

READABLE = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})


class Decoder:
    """Reads a body piece by piece; what it cannot read gives nothing."""

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


def decoded(codings: str, body: bytes, most: int) -> bytes:
    """Return the text of a body, cut at `most` bytes; empty if it cannot be read."""
    decoder = Decoder(codings)
    found = bytearray()
    for at in range(0, len(body), 2**16):
        found += decoder.feed(body[at : at + 2**16])
        if len(found) >= most:
            break
    return b"" if decoder.is_broken else bytes(found[:most])


def _step(name: str) -> Callable[[bytes], bytes] | None:
    if name in ("gzip", "x-gzip"):
        return _Gzip().feed
    if name == "deflate":
        return _Deflate().feed
    if name == "br":
        return _brotli()
    return _zstd() if name == "zstd" else None


class _Gzip:
    """Members one behind the other, as RFC 1952 allows."""

    def __init__(self) -> None:
        self._reader = zlib.decompressobj(wbits=31)

    def feed(self, piece: bytes) -> bytes:
        """Return the text of a piece."""
        found = self._reader.decompress(piece)
        while self._reader.eof and (rest := self._reader.unused_data):
            self._reader = zlib.decompressobj(wbits=31)
            found += self._reader.decompress(rest)
        return found


class _Deflate:
    """With zlib's header, as RFC 9110 says, or without, as some servers send it."""

    def __init__(self) -> None:
        self._reader: Any = None

    def feed(self, piece: bytes) -> bytes:
        """Return the text of a piece."""
        if self._reader is None:
            first = int.from_bytes(piece[:2], "big")
            has_header = first >> 8 & 15 == 8 and first % 31 == 0
            self._reader = zlib.decompressobj(wbits=15 if has_header else -15)
        found: bytes = self._reader.decompress(piece)
        return found


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
