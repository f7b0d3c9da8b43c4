"""A request cut to about so many tokens without a tokenizer: texts, then the newest results.

Tokens are estimated from bytes, more exactly where somebody has counted some.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from contextrender_bridge.base import wire
from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects import MessagePlan, Transcript
from contextrender_bridge.dialects.contents import CutText
from contextrender_bridge.proxy.refusals import COUNTED_SHARE

BYTES_A_TOKEN = 3.0
"""Where nobody has counted: texts and code have some more, hashes fewer."""
MEDIA_TOKENS = 1_600
SPARE = 0.97
LEAST_BYTES = 400
"""Of the newest result."""

_ANSWER = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_ITEMS = ("messages", "input")


class Measured:
    """A request as bytes, by its canonical messages: what stands outside them counts, too."""

    def __init__(self, body: Mapping[str, Any], transcript: Transcript) -> None:
        """Reads all of it: for requests that may be too long."""
        self.body, self.transcript = body, transcript
        self.ratio = BYTES_A_TOKEN
        self._rest = len(wire.dumps({k: v for k, v in body.items() if k not in _ITEMS}))
        self._sizes = [len(wire.dumps(m)) for m in transcript.messages]
        self._media = [_media(m) for m in transcript.messages]

    def count_as(self, tokens: int, messages: int) -> None:
        """The service counted so many tokens of the first messages."""
        size = sum(self._sizes[:messages])
        media = MEDIA_TOKENS * sum(self._media[:messages])
        if tokens > media and size:
            self.ratio = max(1.0, COUNTED_SHARE * size / (tokens - media))

    @property
    def tokens(self) -> int:
        """About how many it has."""
        return int((sum(self._sizes) + self._rest) / self.ratio) + MEDIA_TOKENS * sum(self._media)

    def within(self, window: int) -> Json:
        """The body with what fits: texts, without the oldest, and the newest results, each with its
        call. The first user message, the last one and the newest result stay, cut if they must be.
        """
        answer = max(
            (self.body[n] for n in _ANSWER if isinstance(self.body.get(n), int)), default=0
        )
        answer = answer if answer < window / 2 else 0
        return self.transcript.apply(self._plan(int((window - answer) * SPARE * self.ratio)))

    def _plan(self, room: int) -> MessagePlan:
        messages = self.transcript.messages
        calls_of = self.transcript.pairs.call_of_result
        weights = [
            size + int(MEDIA_TOKENS * self.ratio) * media
            for size, media in zip(self._sizes, self._media, strict=True)
        ]
        for result, (place, number) in calls_of.items():
            size = len(wire.dumps(messages[place]["tool_calls"][number]))
            weights[place] -= size
            weights[result] += size
        texts = [n for n, m in enumerate(messages) if n not in calls_of and m.get("content")]
        kept, room = _kept(messages, texts, weights, room - self._rest)
        cuts = _longest_cut(messages, kept, self._sizes, LEAST_BYTES - room)
        newest, cut = max(calls_of, default=-1), 0
        shown: set[int] = set()
        for result in sorted(calls_of, reverse=True):
            if weights[result] <= room:
                room -= weights[result]
                shown.add(result)
            elif result == newest:
                cut, room = max(room - weights[result] + self._sizes[result], LEAST_BYTES), 0
                shown.add(result)
        plan = self.transcript.plan(_shown(messages, kept, shown, calls_of))
        if cut:
            cuts[newest] = cut
        for place, size in cuts.items():
            plan.replace(place, _cut(messages[place], size))
        return plan


def _kept(
    messages: Sequence[Json], texts: Sequence[int], weights: Sequence[int], room: int
) -> tuple[set[int], int]:
    """The texts that stay, and the room that they leave: the oldest go first."""
    asked = [n for n in texts if messages[n]["role"] == "user"]
    answered = max((n for n, m in enumerate(messages) if m["role"] == "assistant"), default=0)
    kept = {n for n in texts if messages[n]["role"] in ("system", "developer") or n >= answered}
    kept.update(asked[:1] + asked[-1:])
    room -= sum(weights[n] for n in kept)
    for n in sorted(set(texts) - kept, reverse=True):
        if weights[n] > room:
            break
        kept.add(n)
        room -= weights[n]
    return kept, room


def _longest_cut(
    messages: Sequence[Json], kept: set[int], sizes: Sequence[int], lacking: int
) -> dict[int, int]:
    """To how many bytes what the user said is cut, the longest first, while so many are lacking."""
    cuts: dict[int, int] = {}
    for n in sorted(kept, key=lambda n: -sizes[n]):
        if lacking > 0 and messages[n]["role"] == "user" and sizes[n] > LEAST_BYTES:
            cuts[n] = max(sizes[n] - lacking, LEAST_BYTES)
            lacking -= sizes[n] - cuts[n]
    return cuts


def _shown(
    messages: Sequence[Json],
    kept: set[int],
    results: set[int],
    calls_of: Mapping[int, tuple[int, int]],
) -> list[Json]:
    """As the plan of a render reply."""
    calls: dict[int, list[int]] = {}
    for result in results:
        place, number = calls_of[result]
        calls.setdefault(place, []).append(number)
    return [
        {
            "message": n,
            "calls": sorted(calls.get(n, ())),
            "text": None if n in kept or n in results or not messages[n].get("content") else "",
        }
        for n in range(len(messages))
        if n in kept or n in results or n in calls
    ]


def _cut(message: Json, size: int) -> str:
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    text = "\n".join(str(p.get("text") or "") for p in parts if isinstance(p, dict))
    return CutText(text, size)


def _media(message: Json) -> int:
    content = message.get("content")
    parts = content if isinstance(content, list) else ()
    return sum(isinstance(part, dict) and "digest" in part for part in parts)
