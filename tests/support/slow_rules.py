"""A reference implementation of the method: slow, plain, and sharing no code with the engine.

Messages are OpenAI chat messages; results and calls are named by position; there is no state.
`count` returns the tokens of a text.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from contextrender_bridge.base.wire import Json

Count = Callable[[str], int]
Call = tuple[int, int]

LETTERS = "abcdefghijklmnopqrstuvwxyz"
CAPITALS = LETTERS.upper()
DIGITS = "0123456789"


def text_of(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    parts = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif part["type"] == "refusal":
            parts.append(part["refusal"])
        elif part["type"] == "text":
            parts.append(part["text"])
        elif part["type"] != "image_url":
            parts.append(json.dumps(part, ensure_ascii=False, separators=(",", ":")))
    return "\n".join(parts)


def name_and_arguments(call: Json) -> tuple[str, str]:
    body = call["custom"] if call["type"] == "custom" else call["function"]
    arguments = body.get("input" if call["type"] == "custom" else "arguments")
    if arguments is None:
        return body["name"], ""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return body["name"], arguments


def call_tokens(call: Json, count: Count) -> int:
    name, arguments = name_and_arguments(call)
    return 4 + count(name) + count(arguments)


def own_tokens(message: Json, count: Count) -> int:
    """Return the tokens of a message without its calls; 0 for an assistant message without text."""
    parts = message["content"] if isinstance(message["content"], list) else []
    images = sum(isinstance(part, dict) and part["type"] == "image_url" for part in parts)
    text_tokens = count(text_of(message["content"])) + 765 * images
    return 0 if message["role"] == "assistant" and not text_tokens else 4 + text_tokens


def tokens(messages: Sequence[Json], count: Count) -> int:
    calls = [call for message in messages for call in message.get("tool_calls") or []]
    return sum(own_tokens(m, count) for m in messages) + sum(call_tokens(c, count) for c in calls)


@cache
def values(text: str) -> frozenset[str]:
    """Return the reusable values of a text."""
    plain, at = "", 0
    while at < len(text):
        if text[at] == "\\" and text[at + 1 : at + 2] in ("n", "t", "r", "\\"):
            plain, at = plain + " ", at + 2
        else:
            plain, at = plain + text[at], at + 1
    runs = "".join(c if c in LETTERS + CAPITALS + DIGITS + "_.-" else " " for c in plain).split(" ")
    distinct_values = set()
    for run in runs:
        value = run.strip("_.-")
        is_distinctive = any(c in CAPITALS + DIGITS + "_.-" for c in value)
        is_titlecase = value[:1] in CAPITALS and value[1:] and all(c in LETTERS for c in value[1:])
        if len(value) >= 6 and is_distinctive and not is_titlecase:
            distinct_values.add(value)
    return frozenset(distinct_values)


def answers(messages: Sequence[Json]) -> dict[int, Call]:
    """Return the call (message, index in it) of each result, without results that have no call.

    If several open calls have a result's id, the first one of the latest message is used.
    """
    call_of_result: dict[int, Call] = {}
    for position, message in enumerate(messages):
        if message["role"] != "tool":
            continue
        for call_position in range(position - 1, -1, -1):
            open_calls = [
                (call_position, place)
                for place, call in enumerate(messages[call_position].get("tool_calls") or [])
                if call["id"] == message["tool_call_id"]
                and (call_position, place) not in call_of_result.values()
            ]
            if open_calls:
                call_of_result[position] = open_calls[0]
                break
    return call_of_result


def turns(messages: Sequence[Json]) -> list[int]:
    """Return the turn of each message: a result has its call's, a user or system message the next
    assistant's."""
    call_of_result = answers(messages)
    numbers = []
    for position, message in enumerate(messages):
        assistants = sum(m["role"] == "assistant" for m in messages[: position + 1])
        if message["role"] == "tool":
            call_position = call_of_result[position][0] if position in call_of_result else position
            assistants = sum(m["role"] == "assistant" for m in messages[: call_position + 1])
        elif message["role"] != "assistant":
            assistants += 1
        numbers.append(assistants)
    return numbers


def operations(messages: Sequence[Json]) -> Iterator[tuple[int, int, str]]:
    """Yield each operation: its message, its number among all events, and its text."""
    event = 0
    for position, message in enumerate(messages):
        if message["role"] == "assistant":
            yield position, event, text_of(message["content"])
            for place, call in enumerate(message.get("tool_calls") or []):
                yield position, event + 1 + place, " ".join(name_and_arguments(call))
            event += len(message.get("tool_calls") or [])
        event += 1


def uses(messages: Sequence[Json]) -> list[tuple[int, int, list[str]]]:
    """Return the uses of each operation: its event, the result's position, and the values."""
    found_uses = []
    for position, event, text in operations(messages):
        by_result: dict[int, list[str]] = {}
        for value in values(text):
            for earlier in range(position):
                earlier_text = text_of(messages[earlier]["content"])
                if messages[earlier]["role"] == "tool" and value in values(earlier_text):
                    by_result.setdefault(earlier, []).append(value)
                    break
        found_uses += [(event, result, sorted(by_result[result])) for result in sorted(by_result)]
    return found_uses


def misses(
    messages: Sequence[Json], prompts: Mapping[int, Sequence[Json]]
) -> set[tuple[int, int, str]]:
    """Return the misses: turn, result's position and value that an answer used but its prompt did
    not have."""
    at = {event: position for position, event, _ in operations(messages)}
    number = turns(messages)
    last_prompt = {}
    for turn, prompt in prompts.items():
        texts = [text_of(message["content"]) for message in prompt]
        calls = [call for message in prompt for call in message.get("tool_calls") or []]
        texts += [" ".join(name_and_arguments(call)) for call in calls]
        last_prompt[turn] = frozenset().union(*map(values, texts))
    return {
        (number[at[event]], result, value)
        for event, result, used_values in uses(messages)
        for value in used_values
        if value not in last_prompt[number[at[event]]]
    }


def reuse_scores(messages: Sequence[Json]) -> dict[int, Fraction]:
    """Return the reuse score of each result by position, before the next model call."""
    values_by_position = {
        position: values(text_of(message["content"]))
        for position, message in enumerate(messages)
        if message["role"] == "tool"
    }
    scores = dict.fromkeys(values_by_position, Fraction(0))
    for _, result, matching_values in uses(messages):
        for value in matching_values:
            scores[result] += Fraction(
                1, sum(value in some for some in values_by_position.values())
            )
    return scores


Numbers = Sequence[float]


def greedy(
    usefulness: Numbers, costs: Sequence[int], free: int, cosine: Sequence[Numbers], penalty: float
) -> list[int]:
    """Return the selected candidates in order."""
    selected: list[int] = []
    while True:
        best, best_score = -1, -math.inf
        for candidate, useful in enumerate(usefulness):
            if (
                candidate in selected
                or costs[candidate] + sum(costs[other] for other in selected) > free
            ):
                continue
            score = useful - penalty * max([0.0, *(cosine[candidate][other] for other in selected)])
            if score > best_score:
                best, best_score = candidate, score
        if best < 0:
            return selected
        selected.append(best)


def outside_budget(messages: Sequence[Json]) -> set[int]:
    """Return the positions of the system prompt and the current user message."""
    outside = set()
    for position, message in enumerate(messages):
        if message["role"] not in ("system", "developer"):
            break
        outside.add(position)
    users = [p for p, message in enumerate(messages) if message["role"] == "user"]
    return outside | set(users[-1:])


@dataclass
class RetainedText:
    """The retained text: dropped turns, dropped messages, and the tokens of the remaining text."""

    dropped_turns: list[int]
    dropped_messages: set[int]
    tokens: int


def retain_text(messages: Sequence[Json], budget: int, count: Count) -> RetainedText:
    """Drop the oldest turns until the text fits, but never the first user message or the last
    turn."""
    outside = outside_budget(messages)
    number = turns(messages)
    users = [p for p, message in enumerate(messages) if message["role"] == "user"]
    retained_text = RetainedText([], set(), 0)

    def text_tokens() -> int:
        return sum(
            own_tokens(message, count)
            for position, message in enumerate(messages)
            if message["role"] != "tool"
            and position not in outside | retained_text.dropped_messages
        )

    for turn in range(1, sum(message["role"] == "assistant" for message in messages)):
        if text_tokens() <= budget:
            break
        retained_text.dropped_turns.append(turn)
        retained_text.dropped_messages |= {
            p for p in range(len(messages)) if number[p] == turn and p not in outside | {*users[:1]}
        }
    retained_text.tokens = text_tokens()
    return retained_text


def normalize(vector: Sequence[float]) -> list[float]:
    """Return the vector with length 1, or the zero vector."""
    length = math.sqrt(sum(x * x for x in vector))
    return [x / length if length else 0.0 for x in vector]


def cosine(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the cosine of two unit vectors, rounded to 6 decimals."""
    return round(sum(x * y for x, y in zip(first, second, strict=True)), 6)


Embed = Callable[[str], Sequence[float]]


def relevance(messages: Sequence[Json], embed: Embed, task_share: float) -> dict[int, float]:
    """Return the relevance of each result by position."""

    def last(role: str) -> list[str]:
        return [text_of(m["content"]) for m in messages if m["role"] == role][-1:]

    first_user = [text_of(m["content"])[:2000] for m in messages if m["role"] == "user"][:1]
    latest = "\n".join(text for text in last("user") + last("assistant") if text)
    task = normalize(embed("".join(first_user)))
    now = normalize(embed(latest))
    query = normalize(
        [task_share * x + (1 - task_share) * f for x, f in zip(task, now, strict=True)]
    )
    return {
        position: max(0.0, cosine(normalize(embed(text_of(message["content"])[:8000])), query))
        for position, message in enumerate(messages)
        if message["role"] == "tool"
    }


@dataclass
class Candidate:
    """A result as a candidate for selection."""

    position: int
    age: int
    reuse: Fraction
    relevance: float
    vector: list[float]
    call_cost: int
    cost: int
    oversized: bool
    may_show: bool

    def usefulness(self, p: Any) -> float:
        return float(
            p.weight_recency * math.exp(-p.recency_decay * self.age)
            + p.weight_reuse * (1 - math.exp(-p.reuse_rate * float(self.reuse)))
            + p.weight_relevance * self.relevance
        )


def candidates(
    messages: Sequence[Json], budget: int, count: Count, embed: Embed, task_share: float
) -> list[Candidate]:
    """Return every result in history order."""
    call_of_result, number, scores = answers(messages), turns(messages), reuse_scores(messages)
    similar = relevance(messages, embed, task_share)
    text = retain_text(messages, budget, count)
    next_turn = 1 + sum(message["role"] == "assistant" for message in messages)
    rows = []
    for position, message in enumerate(messages):
        if message["role"] != "tool":
            continue
        call_cost = 0
        if position in call_of_result:
            call_position, place = call_of_result[position]
            call_cost = call_tokens(messages[call_position]["tool_calls"][place], count)
        cost = own_tokens(message, count) + call_cost
        rows.append(
            Candidate(
                position,
                next_turn - number[position],
                scores[position],
                similar[position],
                normalize(embed(text_of(message["content"])[:8000])),
                call_cost,
                call_cost + max(100, budget // 8) if cost > budget else cost,
                cost > budget,
                position in call_of_result and position not in text.dropped_messages,
            )
        )
    return rows


def choice(
    candidates: Sequence[Candidate], useful: Sequence[float], budget: int, free: int, penalty: float
) -> tuple[list[int], dict[int, int]]:
    """Return the selected candidates in order, and the token limits of those with a substitute.

    An oversized result is a candidate only in the newest turn, as a text of an eighth of the
    budget.
    Older ones share what the complete results leave over, as long as an eighth is left.
    """
    may_compete = [
        candidate.may_show and (candidate.age == 1 or not candidate.oversized)
        for candidate in candidates
    ]
    costs = [
        candidate.cost if is_competing else free + 1
        for candidate, is_competing in zip(candidates, may_compete, strict=True)
    ]
    matrix = [[cosine(a.vector, b.vector) for b in candidates] for a in candidates]
    selected = greedy(useful, costs, free, matrix, penalty)
    limits = {result: max(100, budget // 8) for result in selected if candidates[result].oversized}
    room = free - sum(costs[result] for result in selected)
    older = [
        result
        for result, candidate in enumerate(candidates)
        if candidate.may_show and candidate.oversized and candidate.age > 1
    ]
    for result in sorted(older, key=lambda result: useful[result], reverse=True):
        limit = max(100, budget // 8)
        if limit + candidates[result].call_cost <= room:
            selected.append(result)
            limits[result] = limit
            room -= limit + candidates[result].call_cost
    return selected, limits
