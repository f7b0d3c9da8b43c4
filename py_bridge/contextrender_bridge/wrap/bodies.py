"""Request bodies as the proxy reads them: those an agent has compressed are unpacked."""

from __future__ import annotations

import gzip
import zlib

from contextrender_bridge.proxy.headers import Headers, first, without


def decoded(headers: Headers, body: bytes) -> tuple[Headers, bytes]:
    """Headers and body without a content coding; as they came if it cannot be undone."""
    coding = first(headers, b"content-encoding").lower()
    if coding in ("", "identity"):
        return headers, body
    try:
        plain = _unpacked(coding, body)
    except (ImportError, OSError, EOFError, ValueError, zlib.error):
        return headers, body
    return without(headers, b"content-encoding", b"content-length"), plain


def _unpacked(coding: str, body: bytes) -> bytes:
    if coding == "gzip":
        return gzip.decompress(body)
    if coding == "zstd":
        import zstandard

        try:
            return zstandard.ZstdDecompressor().decompressobj().decompress(body)
        except zstandard.ZstdError as error:
            raise ValueError from error
    raise ValueError(coding)
