"""Strategies that generate histories, and doubles for recording and rendering them."""

import json
import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from contextrender_bridge.engine.call.render_call import RenderedCall, assemble, render_call
from contextrender_bridge.engine.history.growable_arrays import Vectors, encode_vector
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.history.token_tracking import TextsOf
from contextrender_bridge.engine.parameters import NO_PINS, Parameters, Pins
from contextrender_bridge.engine.policies import Policy, policy_named
from contextrender_bridge.engine.text.tokens import content_text, counter_for
from contextrender_bridge.engine.text.transcript import Json, check_messages, digest_after, split
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support import slow_rules

COUNTER = counter_for(None)
DEFAULTS = Parameters()
METHOD_POLICIES = ("contextrender", "recency", "reuse", "relevance", "recency_relevance", "prune")
"""The paper's policy, its ablations and `prune`, which share one rule for retained text."""

BUDGETS = st.sampled_from([64, 90, 150, 250, 400, 700])

modest = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "4")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

VALUES = [
    *("order_17", "REQ-88121", "tr_solo", "gmail.com"),
    *("W2378156", "10.0.0.12", "user_id", "app_main.py"),
]
PLAIN = ["Kathryn", "lowercase", "a_b", "the", "é中", "😀"]
SEPARATORS = [" ", "\n", ", ", "/", '"', "@", "\\n", "\\t", "\\\\", "\\\\n", "\\", "..", "-", "\r"]
FRAGMENTS = [word + separator for word in VALUES + PLAIN for separator in SEPARATORS]
IDS = ["c1", "c2", "c3", "c4"]


@st.composite
def texts(draw: st.DrawFn, *, longest: int = 150) -> str:
    """Draw words and separators, sometimes longer than any budget here, sometimes empty."""
    text = "".join(draw(st.lists(st.sampled_from(FRAGMENTS), max_size=5)))
    return text * draw(st.sampled_from([n for n in (1, 1, 1, 8, 40, 150) if n <= longest]))


def contents(*, longest: int = 150) -> st.SearchStrategy[Any]:
    """Return a strategy for message content: text, content parts, or null."""
    text_parts = texts(longest=longest).map(lambda text: {"type": "text", "text": text})
    short = texts(longest=8)
    other = st.sampled_from(
        [
            {"type": "refusal", "refusal": "no REQ-88121"},
            {"type": "resource", "uri": "file:é/app_main.py"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA_1"}},
        ]
    )
    part = st.one_of(text_parts, text_parts, text_parts, text_parts, short, short, other)
    text = texts(longest=longest)
    return st.one_of(text, text, text, st.none(), st.lists(part, max_size=3))


@st.composite
def calls(draw: st.DrawFn, call_id: str) -> Json:
    """Draw a tool call with arguments as JSON text, an object, other text, nothing, or custom
    input."""
    name = draw(st.sampled_from(["search", "get_order", "user_id"]))
    value = draw(st.sampled_from([*VALUES, "é" + VALUES[0], "plain"]))
    arguments: list[Any] = [
        *(json.dumps({"id": value}, ensure_ascii=False), f"{value}\\n{VALUES[2]} not json"),
        *({"id": value, "deep": ["x\n" + VALUES[1], 1.5, None]}, value + " y" * 200),
        *("{}", {}, "", None),
    ]
    bodies: list[Json] = [{"name": name, "arguments": argument} for argument in arguments]
    body = draw(st.sampled_from([*bodies, {"name": name}]))
    if draw(st.integers(0, 5)) == 5:
        custom = {"name": name, "input": str(body.get("arguments"))}
        return {"id": call_id, "type": "custom", "custom": custom}
    return {"id": call_id, "type": "function", "function": dict(body)}


@st.composite
def transcripts(
    draw: st.DrawFn, *, complete: bool = False, most_turns: int = 6, longest: int = 150
) -> list[Json]:
    """Draw OpenAI chat messages. If `complete`, every call has a result and every result a call."""
    content = contents(longest=longest)
    remark = st.one_of(contents(longest=1), contents(longest=1), content)
    messages: list[Json] = [
        {"role": draw(st.sampled_from(["system", "developer"])), "content": draw(remark)}
        for _ in range(draw(st.integers(0, 2)))
    ]
    late: list[str] = []
    for _ in range(draw(st.integers(0, most_turns))):
        user_count = draw(st.sampled_from([0, 0, 1, 1, 2]))
        messages += [{"role": "user", "content": draw(remark)} for _ in range(user_count)]
        if draw(st.integers(0, 9)) == 9:
            messages.append({"role": "system", "content": draw(remark)})
        unique: bool = draw(st.integers(0, 9)) < 9
        ids: list[str] = draw(st.lists(st.sampled_from(IDS), max_size=3, unique=unique))
        message: Json = {"role": "assistant", "content": draw(remark)}
        if bool(ids) or draw(st.booleans()):
            message["tool_calls"] = [draw(calls(call_id)) for call_id in ids]
        messages.append(message)
        answered_ids = list(draw(st.permutations(ids)))
        if not complete:
            fates = {c: draw(st.sampled_from(["now", "now", "now", "late", "never"])) for c in ids}
            answered_ids = [i for i in answered_ids if fates[i] == "now"]
            answered_ids += draw(st.sampled_from([[], [], [], ["c1"], ["stray"], late]))
            late = [i for i in ids if fates[i] == "late"]
        messages += [
            {"role": "tool", "tool_call_id": c, "content": draw(content)} for c in answered_ids
        ]
    if draw(st.booleans()):
        messages.append({"role": "user", "content": draw(content)})
    return messages


class AxisEmbedder:
    """A double of an embedder: each vector is one axis or its opposite, so cosines are exact."""

    name = "axis"
    width = 5

    def embed(self, texts: Sequence[str]) -> Vectors:
        rows = np.zeros((len(texts), self.width), np.float32)
        for row, text in zip(rows, texts, strict=True):
            if text:
                code = zlib.crc32(text.encode("utf-8", "surrogatepass"))
                row[code % self.width] = -1.0 if code % 7 == 0 else 1.0
        return rows


def history_of(messages: Sequence[Json]) -> History:
    history = History()
    history.extend(messages, COUNTER)
    return history


def reader(messages: Sequence[Json]) -> TextsOf:
    return lambda positions: [content_text(messages[p].get("content")) for p in positions]


def render(
    messages: Sequence[Json],
    budget: int,
    policy: str | Policy = "contextrender",
    parameters: Parameters = DEFAULTS,
    history: History | None = None,
    embedder: Any = None,
    agent_defaults: bool = False,
    pins: Pins = NO_PINS,
    window: int | None = None,
) -> tuple[RenderedCall, list[Json]]:
    """Render `messages` and return the rendered call and its prompt. Use `history`, if given."""
    history = history or history_of(messages)
    settings = repr((budget, policy, parameters, agent_defaults, pins))
    selections = [
        selection
        for known_by, selection in history.selections.values()
        if known_by == settings and history.roles[selection.messages :][:1] == ["assistant"]
    ]
    rendered = render_call(
        history,
        budget=budget,
        model_window=window,
        policy=policy_named(policy) if isinstance(policy, str) else policy,
        parameters=parameters,
        counter=COUNTER,
        embedder=lambda: embedder or AxisEmbedder(),
        texts_of=reader(messages),
        agent_defaults=agent_defaults,
        pins=pins,
        previous=max(selections, key=lambda selection: selection.messages, default=None),
        select_answered=True,
    )
    history.remember(settings, rendered.selection)
    return rendered, [assemble(messages[item["message"]], item) for item in rendered.items]


def stored_fields(messages: Iterable[Json], vectors: dict[int, Vectors]) -> list[dict[str, Any]]:
    """Return the fields of the nodes of `messages` (`nodes/events.jac`), in order.

    `vectors` has embeddings by result number; other results have none.
    """
    fields: list[dict[str, Any]] = []
    digest, results = "", 0
    for position, message in enumerate(messages):
        digest = digest_after(digest, message)
        for event in split(message, position, COUNTER):
            row: dict[str, Any] = {
                "number": len(fields),
                "position": position,
                "tokens": event.tokens,
                "text": event.text,
                "shell": event.shell,
                "digest": digest,
            }
            if event.kind == "message":
                row["role"] = event.role
            else:
                row |= {"call_id": event.call_id, "name": event.name}
            if event.kind == "result":
                vector = vectors.get(results)
                row["embedding"] = "" if vector is None else encode_vector(vector)
                row["embedding_model"] = "" if vector is None else AxisEmbedder.name
                results += 1
            fields.append(row)
    return fields


def snapshot(history: History) -> dict[str, Any]:
    """Return the complete state of a history in comparable form."""
    results = history.results
    vectors = history.vectors.matrix(len(results))
    return {
        "roles": history.roles,
        "messages": history.messages,
        "digests": history.digests,
        "turns": list(history.turns),
        "text_tokens": list(history.text_tokens),
        "first_events": list(history.first_events),
        "results": {name: list(getattr(results, name)) for name in type(results).__slots__},
        "scores": [score.hex() for score in history.reuse.scores()],
        "uses": history.reuse.uses,
        "events": history.events,
        "turn": history.turn,
        "total_tokens": history.total_tokens,
        "text_bytes": history.text_bytes,
        "leading_system": history.leading_system,
        "users": (history.first_user, history.last_user, history.last_assistant),
        "missing": history.vectors.missing_vectors(len(results)),
        "vectors": vectors.tolist() if vectors.any() else [],
    }


def decisions_of(rendered: RenderedCall) -> dict[str, Any]:
    """Return the decisions of a rendering in comparable form, with floats as exact bits."""
    scores = rendered.selection.scores
    return {
        "selection": rendered.selection,
        "reasons": rendered.selection.reasons,
        "items": rendered.items,
        "tokens": (rendered.tokens_before, rendered.tokens_after),
        "scores": scores
        and [
            None if column is None else [float(number).hex() for number in column]
            for column in (scores.relevance, scores.usefulness, scores.score)
        ],
    }


def check_shown(messages: Sequence[Json], rendered: RenderedCall, prompt: list[Json]) -> None:
    """Check the token count of a prompt, and that every call and result has its counterpart."""
    outside = slow_rules.outside_budget(messages)
    items = zip(prompt, rendered.items, strict=True)
    inside = [message for message, item in items if item["message"] not in outside]
    assert slow_rules.tokens(inside, COUNTER.text) == rendered.tokens_after
    check_messages(prompt, 0)
    calls = sum(len(message.get("tool_calls") or []) for message in prompt)
    results = sum(message["role"] == "tool" for message in prompt)
    assert len(slow_rules.answers(prompt)) == calls == results
