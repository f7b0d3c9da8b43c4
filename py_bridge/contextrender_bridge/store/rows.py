"""A node's or edge's fields as the bytes of one column, and back.

The fields are JSON, compressed where that pays; those of type bytes follow as they are (a vector
does not compress). One layout for every database:

    1 byte   1 where the JSON is compressed
    4 bytes  length of the JSON as stored, little-endian
    JSON     {field: value, ...}; under "" what is not a field: {"bytes": {field: length}, ...}
    bytes    of those fields, in that order
"""

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final

import zstandard
from pydantic_core import from_json, to_json

Fields = dict[str, Any]
Read = tuple[bytes, Fields, Fields]
"""A row that is not compressed, its fields and its notes."""

NOT_FIELDS: Final = ""
_WORTH_COMPRESSING = 160
_HEAD = 5
_LEVEL = 3
_WORDS: Final = (
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
"""Text that rows often have. Each row is compressed as if it came after it, which makes small rows
smaller. With another text here, what was written cannot be read."""
_DICTIONARY = zstandard.ZstdCompressionDict(_WORDS, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
_DICTIONARY.precompute_compress(level=_LEVEL)

_COMPRESSORS_KEPT = 2
_DECOMPRESS = threading.local()
_IDLE_COMPRESSORS: list[zstandard.ZstdCompressor] = []
"""Compressors, each for one thread at a time. One keeps some megabytes once a row was large, so few
are kept, and not one a thread."""


def _compress(data: bytes) -> bytes:
    try:
        tool = _IDLE_COMPRESSORS.pop()
    except IndexError:
        tool = zstandard.ZstdCompressor(
            level=_LEVEL, write_content_size=True, write_checksum=True, dict_data=_DICTIONARY
        )
    packed = tool.compress(data)
    if len(_IDLE_COMPRESSORS) < _COMPRESSORS_KEPT:
        _IDLE_COMPRESSORS.append(tool)
    return packed


def _decompress(data: bytes) -> bytes:
    tool = vars(_DECOMPRESS).get("tool")
    if tool is None:
        tool = _DECOMPRESS.tool = zstandard.ZstdDecompressor(_DICTIONARY)
    return bytes(tool.decompress(data))


def encode(fields: Mapping[str, Any], notes: Mapping[str, Any] | None = None) -> bytes:
    """Return the row of these fields, not compressed yet: equal fields give equal bytes.

    `notes` has what else is stored of the node or edge. Raise TypeError for what is no JSON.
    """
    plain = {name: value for name, value in fields.items() if type(value) is not bytes}
    raw = {name: value for name, value in fields.items() if type(value) is bytes}
    about = dict(notes or {})
    if raw:
        about["bytes"] = {name: len(value) for name, value in raw.items()}
    if about:
        plain[NOT_FIELDS] = about
    try:
        text = to_json(plain)
    except ValueError:  # lone surrogates
        text = json.dumps(plain, separators=(",", ":")).encode()
    return b"".join([b"\0", len(text).to_bytes(4, "little"), text, *raw.values()])


def encode_all(contents: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> list[bytes]:
    """Return the rows of many nodes or edges, from the fields and notes of each."""
    return [encode(fields, notes) for fields, notes in contents]


def pack_all(rows: Iterable[bytes]) -> list[bytes]:
    """Return rows as they are stored."""
    return [pack(row) for row in rows]


def pack(row: bytes) -> bytes:
    """Return a row as it is stored."""
    length = int.from_bytes(row[1:_HEAD], "little")
    if length < _WORTH_COMPRESSING:
        return row
    packed = _compress(row[_HEAD : _HEAD + length])
    head = b"\1" + len(packed).to_bytes(4, "little")
    return b"".join([head, packed, row[_HEAD + length :]])


def unpack(packed: bytes) -> bytes:
    """Return the row that was packed. Raise ValueError for anything else."""
    if len(packed) <= _HEAD or packed[0] > 1:
        raise ValueError("the row is damaged: it has no head")
    if not packed[0]:
        return packed
    stop = _HEAD + int.from_bytes(packed[1:_HEAD], "little")
    try:
        text = _decompress(packed[_HEAD:stop])
    except zstandard.ZstdError as damage:
        raise ValueError(f"the row is damaged: {damage}") from None
    return b"".join([b"\0", len(text).to_bytes(4, "little"), text, packed[stop:]])


def read(packed: bytes) -> Read:
    """Return a stored row, not compressed, with its fields and notes. Raise ValueError."""
    row = unpack(packed)
    return row, *parse(row)


def read_all(packed: Iterable[bytes | None]) -> list[Read | ValueError]:
    """Return stored rows, with an error for each that is damaged; None has no fields."""
    rows: list[Read | ValueError] = []
    for data in packed:
        try:
            rows.append((b"", {}, {}) if data is None else read(data))
        except ValueError as damage:
            rows.append(damage)
    return rows


def parse(row: bytes) -> tuple[Fields, Fields]:
    """Return the fields and notes of a row. Raise ValueError for anything else."""
    stop = _HEAD + int.from_bytes(row[1:_HEAD], "little")
    text = row[_HEAD:stop]
    try:
        fields = from_json(text, cache_strings="keys")
    except ValueError:
        fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError("the row is damaged: it holds no fields")
    notes = fields.pop(NOT_FIELDS, {})
    try:
        for name, length in notes.get("bytes", {}).items():
            fields[name] = row[stop : stop + length]
            stop += length
    except (AttributeError, TypeError):
        raise ValueError("the row is damaged: its notes cannot be read") from None
    if stop != len(row):
        raise ValueError("the row is damaged: its length is another")
    return fields, notes
