"""Message contents: their canonical form, and a text put in place of theirs.

The canonical form is what stays the same from call to call: without `cache_control` marks, which
move, and with media by their digest, which keeps them out of the record.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base.wire import Json

TEXT_TYPES = ("text", "input_text", "output_text")
MEDIA = {
    "image": "image",
    "image_url": "image",
    "input_image": "image",
    "audio": "audio",
    "input_audio": "audio",
    "file": "file",
    "input_file": "file",
    "document": "file",
    "video_url": "image",
}
GONE: Any = object()
"""What stands for a part that leaves; a part itself may be null."""

_ONLY_HERE = frozenset({"cache_control", "annotations", "logprobs"})


def clean_text(text: str) -> str:
    """`text` as UTF-8 can carry it: lone surrogates become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def canonical_content(content: Any) -> str | list[Json] | None:
    """Content as text where it is nothing else, otherwise as chat content parts."""
    if content is None:
        return None
    if isinstance(content, str):
        return clean_text(content)
    if not isinstance(content, list):
        return clean_text(json.dumps(content))
    parts = [_canonical_part(part) for part in content]
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def plain_text(content: Any) -> str:
    """The text of content in any dialect, media left out."""
    canonical = canonical_content(content)
    if isinstance(canonical, list):
        return "\n".join(part["text"] for part in canonical if part["type"] == "text")
    return canonical or ""


def whole_text(content: Any) -> str:
    """The text of content, with what is neither text nor media as JSON."""
    canonical = canonical_content(content)
    if isinstance(canonical, list):
        return "\n".join(part["text"] for part in canonical if "text" in part)
    return canonical or ""


CUT = "\n[... cut to fit the model's window ...]\n"


class CutText(str):
    """A text cut to about `size` characters; of a message with parts, the parts are cut."""

    size: int

    def __new__(cls, text: str, size: int) -> CutText:
        """Cut a text."""
        made = super().__new__(cls, _cut(text, size))
        made.size = size
        return made

    def cut_parts(self, parts: Sequence[Any], kind: str = "text") -> list[Any]:
        """Return parts that hold text in about `size` characters, the longest cut first.

        The others stay as they came, with their marks of the provider's cache.
        """
        made = list(parts)
        texts = [plain_text([part]) for part in parts]
        excess = sum(map(len, texts)) - self.size
        for number in sorted(range(len(texts)), key=lambda n: -len(texts[n])):
            if excess > 0:
                text = _cut(texts[number], len(texts[number]) - excess)
                excess -= len(texts[number]) - len(text)
                made[number] = part_with(parts[number], text, kind)
        return made


def _cut(text: str, size: int) -> str:
    """Return the beginning and the end of a text."""
    half = max(size // 2 - len(CUT), 50)
    return text if len(text) <= 2 * half else f"{text[:half]}{CUT}{text[-half:]}"


def with_text(content: Any, text: str, kind: str = "text") -> Any:
    """`content` with `text` in place of its own text; parts that hold none stay."""
    if not isinstance(content, list):
        return text
    if isinstance(text, CutText):
        cut = iter(text.cut_parts([part for part in content if holds_text(part)], kind))
        return [next(cut) if holds_text(part) else part for part in content]
    kept: list[Any] = []
    pending = bool(text)
    for part in content:
        if not holds_text(part):
            kept.append(part)
        elif pending:
            kept.append(part_with(part, text, kind))
            pending = False
    return [{"type": kind, "text": text}, *kept] if pending else kept


def is_text(part: Any) -> bool:
    """Whether a content part is text and nothing else."""
    if isinstance(part, str):
        return True
    return (
        isinstance(part, dict)
        and part.get("type") in TEXT_TYPES
        and isinstance(part.get("text"), str)
    )


def holds_text(part: Any) -> bool:
    """Whether a content part is text, or a document that is: its text is the message's, too."""
    if is_text(part):
        return True
    if not isinstance(part, Mapping):
        return False
    return part.get("type") == "search_result" or _is_text_document(part)


def part_with(part: Any, text: str, kind: str = "text") -> Any:
    """A part that holds text, with another text."""
    if isinstance(part, str):
        return text
    return {**part, "text": text} if is_text(part) else {"type": kind, "text": text}


def _canonical_part(part: Any) -> Json:
    if is_text(part):
        text = part if isinstance(part, str) else part["text"]
        return {"type": "text", "text": clean_text(text)}
    if not isinstance(part, Mapping):
        return {"type": "text", "text": clean_text(json.dumps(part))}
    kind = part.get("type")
    if isinstance(kind, str) and kind in MEDIA and not _is_text_document(part):
        shape = json.dumps({key: part[key] for key in part if key not in _ONLY_HERE})
        digest = hashlib.blake2b(shape.encode(), digest_size=16).hexdigest()
        return {"type": MEDIA[kind], "digest": digest}
    shape = json.dumps({key: part[key] for key in part if key not in _ONLY_HERE})
    return {"type": "other", "text": clean_text(shape)}


def _is_text_document(part: Mapping[str, Any]) -> bool:
    source = part.get("source")
    return isinstance(source, Mapping) and source.get("type") in ("text", "content")
