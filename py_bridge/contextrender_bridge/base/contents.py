"""The content codings of HTTP bodies, as far as this installation can read them."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

PART_BYTES = 2**20
"""The maximum size of one decoded part, or 8 times as much for Zstandard."""
ZSTD_PIECE_BYTES = 2**8
"""The bytes of Zstandard to decode at once. A block of 4 bytes may have 128 KB of content."""
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

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the decoded content of the next piece, in parts of limited size.

        A small piece may have content that would fill the memory. So stop when there is enough of
        it; the decoder can then read no other piece.
        """
        if self.is_broken:
            return
        try:
            yield from _decode(piece, self._steps)
        except Exception:
            # Each library raises exceptions of its own.
            self.is_broken = True


def decode_body(codings: str, body: bytes, max_bytes: int) -> bytes:
    """Return the content of a body, cut at `max_bytes` bytes; empty if it cannot be read."""
    decoder = Decoder(codings)
    content = bytearray()
    for part in decoder.feed(body):
        content += part
        if len(content) >= max_bytes:
            break
    return b"" if decoder.is_broken else bytes(content[:max_bytes])


Step = Callable[[bytes], Iterator[bytes]]
"""A function that decodes one coding: it yields the content of the next piece in parts."""


def _decode(piece: bytes, steps: Sequence[Step]) -> Iterator[bytes]:
    """Yield the content of a piece that is encoded by several codings, the last one first."""
    if not steps:
        yield piece
        return
    for part in steps[0](piece):
        yield from _decode(part, steps[1:])


def _decode_function(name: str) -> Step | None:
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

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the decoded content of the next piece."""
        while piece:
            yield from _inflate(self._reader, piece)
            piece = self._reader.unused_data
            # At the end of a member, begin to read the next one.
            if self._reader.eof:
                self._reader = zlib.decompressobj(wbits=_GZIP_WINDOW)


class _Deflate:
    """A decoder of deflate with zlib's header (RFC 9110), or without it, as some servers send."""

    def __init__(self) -> None:
        self._reader: Any = None
        self._head = b""

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the decoded content of the next piece."""
        if self._reader is None:
            self._head += piece
            if len(self._head) < _ZLIB_HEADER_BYTES:
                return
            piece = self._head
            # A negative window makes zlib read deflate without a header.
            window = _ZLIB_WINDOW if _has_zlib_header(piece) else -_ZLIB_WINDOW
            self._reader = zlib.decompressobj(wbits=window)
        yield from _inflate(self._reader, piece)


def _inflate(reader: Any, piece: bytes) -> Iterator[bytes]:
    """Yield what one of zlib's readers decodes from a piece."""
    content = reader.decompress(piece, PART_BYTES)
    yield content
    # A full part may be followed by content of input that zlib has read already.
    while reader.unconsumed_tail or (len(content) == PART_BYTES and not reader.eof):
        content = reader.decompress(reader.unconsumed_tail, PART_BYTES)
        yield content


def _has_zlib_header(piece: bytes) -> bool:
    """Return whether a body begins with zlib's header (RFC 1950).

    Its two bytes name method 8 (deflate), and as one number they are a multiple of 31.
    """
    header = int.from_bytes(piece[:_ZLIB_HEADER_BYTES], "big")
    method = header >> 8 & 0b1111
    return method == 8 and header % 31 == 0


def _brotli() -> Step | None:
    """Return a new function that decodes Brotli; None if its library is not installed."""
    try:
        brotli = import_module("brotli")
    except ImportError:
        return None
    reader = brotli.Decompressor()

    def feed(piece: bytes) -> Iterator[bytes]:
        """Yield the decoded content of the next piece."""
        while content := reader.process(piece, output_buffer_limit=PART_BYTES):
            yield content
            piece = b""  # The reader has the rest of the piece, and of its content.

    return feed


def _zstd() -> Step | None:
    """Return a new function that decodes Zstandard; None if its library is not installed."""
    try:
        zstandard = import_module("zstandard")
    except ImportError:
        return None
    return _Zstd(zstandard.ZstdDecompressor()).feed


class _Zstd:
    """A decoder of Zstandard. As RFC 8878 allows, a body may have several frames in sequence."""

    def __init__(self, decompressor: Any) -> None:
        self._decompressor = decompressor
        self._reader = decompressor.decompressobj()

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the decoded content of the next piece."""
        position = 0
        while position < len(piece):
            # At the end of a frame, begin to read the next one.
            if self._reader.eof:
                self._reader = self._decompressor.decompressobj()
            small_piece = piece[position : position + ZSTD_PIECE_BYTES]
            yield self._reader.decompress(small_piece)
            position += len(small_piece) - len(self._reader.unused_data)
