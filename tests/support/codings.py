"""Compresses HTTP bodies in every content coding that ContextRender reads."""

import gzip
import zlib
from collections.abc import Callable
from typing import Any

import brotli  # type: ignore[import-untyped]
import zstandard


def _raw_deflate(body: bytes) -> bytes:
    """Compress without zlib's header, as some servers do."""
    return zlib.compress(body, wbits=-zlib.MAX_WBITS)


COMPRESS: dict[str, Callable[[bytes], Any]] = {
    "identity": bytes,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}
_PARTS = [b"", b'{"usage": ', b'{"prompt_tokens": 700}}' * 50]
TEXT = b"".join(_PARTS)
ENCODED_TEXTS = [
    *((coding, compress(TEXT)) for coding, compress in COMPRESS.items()),
    ("deflate", _raw_deflate(TEXT)),
    ("x-gzip", b"".join(map(gzip.compress, _PARTS))),
    ("zstd", b"".join(map(zstandard.compress, _PARTS))),
    ("deflate, gzip", gzip.compress(zlib.compress(TEXT))),
    ("br, zstd", zstandard.compress(brotli.compress(TEXT))),
]
