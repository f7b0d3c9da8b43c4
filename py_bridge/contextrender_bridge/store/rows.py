"""Encoding of a node's or edge's fields as the bytes of one column, and decoding.

The fields are JSON, which is compressed if it is long. Fields of type bytes, which are vectors and
do not compress, follow unchanged. The layout is the same in every database:

    1 byte   flag: 1 if the JSON is compressed, otherwise 0
    4 bytes  length of the JSON as stored, little-endian
    JSON     {field: value, ..., "": metadata}; metadata is {"bytes": {field: length}, ...}
    bytes    of the fields in the metadata's "bytes", in that order

In an uncompressed row the JSON is never compressed. In a stored row it is compressed if it is
long. Metadata are values that are no fields, such as access rights.
"""

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

import zstandard
from pydantic_core import from_json, to_json

Fields = dict[str, Any]
DecodedRow = tuple[bytes, Fields, Fields]
"""An uncompressed row, its fields and its metadata."""

METADATA_KEY: Final = ""
"""The key of the metadata in the JSON. No field has it, because no name is empty."""
_IS_UNCOMPRESSED, _IS_COMPRESSED = b"\0", b"\1"
_HEADER_BYTES = 5
_MIN_COMPRESSED_BYTES = 160
"""Shorter JSON is not compressed, because compression would save little."""
_LEVEL = 3
_DICTIONARY_TEXT: Final = (
    rb'{"key":"","created_at":1795,"updated_at":1795,"revision":1,"branches":1,"head":0,'
    rb'"settings":{},"usage_totals":[]}'
    rb'{"number":0,"parent":-1,"fork_messages":0,"fork_events":0,"messages":2,"events":3,'
    rb'"turns":1,"results":1,"tokens":1,"digest":"","first_digest":""}'
    rb'{"turn":1,"messages":1,"at":1795,"results":1,"budget":6000,"policy":"contextrender",'
    rb'"parameters":{},"agent_defaults":false,"window":0,"pinned_tools":[],"pinned_calls":[],"tokens":[1,2],'
    rb'"delivery":"","model":"","client":"","embedded":0,"usage":[],"own_budget":0,"faulted":false,'
    rb'"whole_bill":[],"misses":0,"is_counted":true,"times_counted":1,"is_over":false,"rebuilt":0,'
    rb'"breakpoints":[],"step_budget":0.0,"edges":1,"is_relative":true}'
    rb'{"pieces":[0,1],"tokens":1,"kind":"excerpt","next_pieces":[],"next_tokens":0,"host_event":1,"place":0}'
    rb'"budget":24000,"policy":"contextrender_cache_aware","parameters":{},"agent_defaults":true,"pinned_tools":[],'
    rb'{"number":1,"position":1,"turn":1,"timestamp":1795,"tokens":1,"text":"'
    rb'","shell":"{\"role\": \"tool\", \"tool_call_id\": \"\", \"content\": \"'
    rb'\\u0000held apart\"}","digest":"","call_id":"","name":"","embedding_model":"wordllama",'
    rb'"":{"bytes":{"embedding":1024}}}'
    rb'{"number":1,"position":1,"turn":1,"timestamp":1795,"tokens":1,"text":"","shell":"{'
    rb"\"role\": \"assistant\", \"content\": \"\\u0000held apart\", \"content\": null, "
    rb'\"tool_calls\": \"\\u0000held apart\"}","digest":"","role":"assistant"}'
    rb'{"number":1,"position":1,"turn":1,"timestamp":1795,"tokens":1,"text":"{\"","shell":"{'
    rb"\"id\": \"call_1\", \"type\": \"function\", \"function\": \"{\\\"name\\\": \\\"\\\", "
    rb'\\\"arguments\\\": \\\"\\\\u0000held apart\\\"}\"}","digest":"","call_id":"call_1","name":"'
)
"""Text that rows often have. Each row is compressed as if it followed this text, which makes small
rows smaller. Never change it: stored rows can be read only with the same text."""
_DICTIONARY = zstandard.ZstdCompressionDict(
    _DICTIONARY_TEXT, dict_type=zstandard.DICT_TYPE_RAWCONTENT
)
_DICTIONARY.precompute_compress(level=_LEVEL)

_DECOMPRESSORS = threading.local()
"""A decompressor of each thread, as the attribute `decompressor`."""
_IDLE_COMPRESSORS: list[zstandard.ZstdCompressor] = []
"""Compressors that no thread uses now. They are shared by all threads, because each one uses some
megabytes after a large row."""
_MAX_IDLE_COMPRESSORS = 2


def _compress(data: bytes) -> bytes:
    """Return the data compressed by an idle compressor, or by a new one if none is idle."""
    try:
        compressor = _IDLE_COMPRESSORS.pop()
    except IndexError:
        compressor = zstandard.ZstdCompressor(
            level=_LEVEL, write_content_size=True, write_checksum=True, dict_data=_DICTIONARY
        )
    compressed = compressor.compress(data)
    if len(_IDLE_COMPRESSORS) < _MAX_IDLE_COMPRESSORS:
        _IDLE_COMPRESSORS.append(compressor)
    return compressed


def _decompress(data: bytes) -> bytes:
    """Return the data that `_compress` compressed. Each thread has its own decompressor."""
    decompressor = getattr(_DECOMPRESSORS, "decompressor", None)
    if decompressor is None:
        decompressor = _DECOMPRESSORS.decompressor = zstandard.ZstdDecompressor(_DICTIONARY)
    return bytes(decompressor.decompress(data))


def _with_header(flag: bytes, json_bytes: bytes, *byte_fields: bytes) -> bytes:
    """Return a row made of these parts, with the length of the JSON."""
    length = len(json_bytes).to_bytes(_HEADER_BYTES - 1, "little")
    return b"".join([flag, length, json_bytes, *byte_fields])


def _json_end(row: bytes) -> int:
    """Return the position after the JSON of a row, according to its header."""
    return _HEADER_BYTES + int.from_bytes(row[1:_HEADER_BYTES], "little")


def encode(fields: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> bytes:
    """Return the uncompressed row of these fields. Equal fields in equal order give equal bytes.

    `metadata` has further values to store, such as access rights. Raise TypeError if a value has no
    JSON form.
    """
    json_fields = {name: value for name, value in fields.items() if type(value) is not bytes}
    byte_fields = {name: value for name, value in fields.items() if type(value) is bytes}
    all_metadata = dict(metadata or {})
    if byte_fields:
        all_metadata["bytes"] = {name: len(value) for name, value in byte_fields.items()}
    if all_metadata:
        json_fields[METADATA_KEY] = all_metadata
    try:
        json_bytes = to_json(json_fields)
    except ValueError:  # Only the standard library writes lone surrogates.
        json_bytes = json.dumps(json_fields, separators=(",", ":")).encode()
    return _with_header(_IS_UNCOMPRESSED, json_bytes, *byte_fields.values())


def encode_all(
    contents: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]] | None],
) -> list[bytes | None]:
    """Return the uncompressed rows of nodes or edges, given as pairs of fields and metadata.

    Return None in place of None.
    """
    return [None if content is None else encode(*content) for content in contents]


def pack_all(rows: Iterable[bytes | None]) -> list[bytes | None]:
    """Return the stored rows of these uncompressed rows, and None in place of None."""
    return [None if row is None else pack(row) for row in rows]


def pack(row: bytes) -> bytes:
    """Return the stored form of an uncompressed row: its JSON is compressed if it is long."""
    end = _json_end(row)
    if end - _HEADER_BYTES < _MIN_COMPRESSED_BYTES:
        return row
    return _with_header(_IS_COMPRESSED, _compress(row[_HEADER_BYTES:end]), row[end:])


def unpack(stored_row: bytes) -> bytes:
    """Return the uncompressed form of a stored row. Raise ValueError if the row is damaged."""
    return _with_header(_IS_UNCOMPRESSED, *_parts(stored_row))


def read(stored_row: bytes) -> DecodedRow:
    """Return the uncompressed form, the fields and the metadata of a stored row.

    Raise ValueError if the row is damaged.
    """
    parts = _parts(stored_row)
    return _with_header(_IS_UNCOMPRESSED, *parts), *_decode(*parts)


def read_all(stored_rows: Iterable[bytes | None]) -> list[DecodedRow | ValueError]:
    """Return, for each row, the result of `read` or the ValueError that it raised.

    A row that is None has no fields and no metadata.
    """
    decoded: list[DecodedRow | ValueError] = []
    for stored_row in stored_rows:
        try:
            decoded.append((b"", {}, {}) if stored_row is None else read(stored_row))
        except ValueError as damage:
            decoded.append(damage)
    return decoded


def read_fields(row: bytes) -> Fields:
    """Return the fields of a row, which may be stored or uncompressed.

    Raise ValueError if the row is damaged.
    """
    return _decode(*_parts(row))[0]


def _parts(row: bytes) -> tuple[bytes, bytes]:
    """Return the uncompressed JSON of a row, and its fields of type bytes, one after the other.

    The row may be stored or uncompressed. Raise ValueError if the row is damaged.
    """
    flag = row[:1]
    if len(row) <= _HEADER_BYTES or flag not in (_IS_UNCOMPRESSED, _IS_COMPRESSED):
        raise ValueError("the row is damaged: it has no head")
    end = _json_end(row)
    json_bytes, byte_fields = row[_HEADER_BYTES:end], row[end:]
    if flag == _IS_UNCOMPRESSED:
        if len(row) < end:
            raise ValueError("the row is damaged: its length is wrong")
        return json_bytes, byte_fields
    try:
        return _decompress(json_bytes), byte_fields
    except zstandard.ZstdError as damage:
        raise ValueError(f"the row is damaged: {damage}") from None


def _decode(json_bytes: bytes, byte_fields: bytes) -> tuple[Fields, Fields]:
    """Return the fields and the metadata of an uncompressed row, given its two parts.

    Raise ValueError if the row is damaged.
    """
    try:
        fields = from_json(json_bytes, cache_strings="keys")
    except ValueError:  # Only the standard library reads lone surrogates.
        fields = json.loads(json_bytes)
    if not isinstance(fields, dict):
        raise ValueError("the row is damaged: it holds no fields")
    metadata = fields.pop(METADATA_KEY, {})
    # The fields of type bytes follow the JSON, one after the other.
    position = 0
    try:
        for name, length in metadata.get("bytes", {}).items():
            fields[name] = byte_fields[position : position + length]
            position += length
    except (AttributeError, TypeError):
        raise ValueError("the row is damaged: its metadata cannot be read") from None
    if position != len(byte_fields):
        raise ValueError("the row is damaged: its length is wrong")
    return fields, metadata
