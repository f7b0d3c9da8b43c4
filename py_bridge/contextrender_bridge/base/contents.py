"""The content codings of HTTP bodies, as far as this installation can read them."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

PIECE_BYTES = 2**16
_GZIP_WINDOW = 31
"""zlib's `wbits`: a window of 15 bits, plus 16 for gzip's header and checksum."""
_ZLIB_WINDOW = 15
_ZLIB_HEADER_BYTES = 2


class Decoder:
    """A decoder of an HTTP body that arrives in pieces.

    `is_broken` is true if a coding is not supported or a piece could not be decoded. From then on,
    `feed` returns no bytes.
    """

    def __init__(self, codings: str) -> None:
        """Create a decoder of these codings, the value of a `content-encoding` header.

        The header names the codings in the order in which they were applied.
        """
        names = [name.strip().lower() for name in codings.split(",")]
        encodings = [name for name in names if name not in ("", "identity")]
        decode_functions = [_decode_function(name) for name in reversed(encodings)]
        self._steps = [function for function in decode_functions if function]
        self.is_broken = None in decode_functions

    def feed(self, piece: bytes) -> bytes:
        """Return the decoded content of the next piece; empty if it cannot be read."""
        if self.is_broken:
            return b""
        try:
            for step in self._steps:
                piece = step(piece)
        except Exception:
            # Each library raises exceptions of its own.
            self.is_broken = True
            return b""
        return piece


def decode_body(codings: str, body: bytes, max_bytes: int) -> bytes:
    """Return the content of a body, cut at `max_bytes` bytes; empty if it cannot be read.

    The body is decoded in pieces, so that a small compressed body cannot fill the memory.
    """
    decoder = Decoder(codings)
    content = bytearray()
    for start in range(0, len(body), PIECE_BYTES):
        content += decoder.feed(body[start : start + PIECE_BYTES])
        if len(content) >= max_bytes:
            break
    return b"" if decoder.is_broken else bytes(content[:max_bytes])


def _decode_function(name: str) -> Callable[[bytes], bytes] | None:
    """Return a new function that decodes the pieces of one body.

    Return None if the coding is unknown or its library is not installed.
    """
    if name in ("gzip", "x-gzip"):
        return _Gzip().feed
    if name == "deflate":
        return _Deflate().feed
    if name == "br":
        return _brotli()
    if name == "zstd":
        return _zstd()
    return None


class _Gzip:
    """A decoder of gzip. As RFC 1952 allows, a body may have several members in sequence."""

    def __init__(self) -> None:
        self._reader = zlib.decompressobj(wbits=_GZIP_WINDOW)

    def feed(self, piece: bytes) -> bytes:
        """Return the decoded content of the next piece."""
        content = self._reader.decompress(piece)
        # At the end of a member, begin to read the next one.
        while self._reader.eof and (next_member := self._reader.unused_data):
            self._reader = zlib.decompressobj(wbits=_GZIP_WINDOW)
            content += self._reader.decompress(next_member)
        return content


class _Deflate:
    """A decoder of deflate with zlib's header (RFC 9110), or without it, as some servers send."""

    def __init__(self) -> None:
        self._reader: Any = None
        self._head = b""

    def feed(self, piece: bytes) -> bytes:
        """Return the decoded content of the next piece."""
        if self._reader is None:
            self._head += piece
            if len(self._head) < _ZLIB_HEADER_BYTES:
                return b""
            piece = self._head
            # A negative window makes zlib read deflate without a header.
            window = _ZLIB_WINDOW if _has_zlib_header(piece) else -_ZLIB_WINDOW
            self._reader = zlib.decompressobj(wbits=window)
        content: bytes = self._reader.decompress(piece)
        return content


def _has_zlib_header(piece: bytes) -> bool:
    """Return whether a body begins with zlib's header (RFC 1950).

    Its two bytes name method 8 (deflate), and as one number they are a multiple of 31.
    """
    header = int.from_bytes(piece[:_ZLIB_HEADER_BYTES], "big")
    method = header >> 8 & 0b1111
    return method == 8 and header % 31 == 0


def _brotli() -> Callable[[bytes], bytes] | None:
    """Return a new function that decodes Brotli; None if its library is not installed."""
    try:
        brotli = import_module("brotli")
    except ImportError:
        return None
    reader: Callable[[bytes], bytes] = brotli.Decompressor().process
    return reader


def _zstd() -> Callable[[bytes], bytes] | None:
    """Return a new function that decodes Zstandard; None if its library is not installed."""
    try:
        zstandard = import_module("zstandard")
    except ImportError:
        return None
    # As RFC 8878 allows, a body may have several frames in sequence.
    reader = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    feed: Callable[[bytes], bytes] = reader.decompress
    return feed
