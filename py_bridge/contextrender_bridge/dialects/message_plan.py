"""Which of a transcript's messages, calls and results are shown, and which texts replace others.

Calls without a result and results without a call are always kept: the agent sent them so, and a
provider may know the other half. The model's newest message is sent as it came: some providers
refuse it otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

LEFT_OUT = "[left out: it does not fit]"
"""The text of a result that is only there because its call is."""
LONGEST_STUB = 400
"""Characters of arguments that stay of a call whose result is left out."""
Message = Mapping[str, Any]
Call = tuple[int, int]
Part = tuple[bool, str | None, int, dict[int, str | None]]
"""Whether a message stays, the text in place of its own, how many calls it has, and those that stay
with the arguments in place of their own."""


class MessagePlan:
    """What a rendering shows of canonical messages, by their position."""

    def __init__(
        self,
        messages: Sequence[Message],
        shown: Iterable[Mapping[str, Any]],
        breakpoints: Iterable[int] = (),
        known: Pairs | None = None,
    ) -> None:
        """`shown` is the `plan` of a render reply, `breakpoints` are messages up to which it lasts.

        Of each message: `message`, the `calls` that stay, `text` and `arguments` for its own.
        `known` are the messages' pairs, where they have been looked for.
        """
        known = known or Pairs(messages)
        self.breakpoints = tuple(breakpoints)
        self._messages = messages
        self._calls_of, self._unanswered = known.answered, known.unanswered()
        self._strays = known.strays
        self._silent = {
            position for position, _ in self._unanswered if not messages[position].get("content")
        }
        self._texts: dict[int, str | None] = {}
        self._calls: set[Call] = set()
        self._stubs: set[int] = set()
        self._arguments: dict[Call, str] = {}
        for item in shown:
            position = item["message"]
            self._texts[position] = item.get("text")
            for call in item["calls"]:
                self._calls.add((position, call))
            if arguments := item.get("arguments"):
                for call, text in zip(item["calls"], arguments, strict=False):
                    if text is not None:
                        self._arguments[position, call] = text

    @classmethod
    def everything(cls, messages: Sequence[Message]) -> MessagePlan:
        """The plan that leaves nothing out."""
        return cls(
            messages,
            (
                {"message": position, "calls": range(len(message.get("tool_calls") or ()))}
                for position, message in enumerate(messages)
            ),
        )

    def shows(self, message: int) -> bool:
        """Whether a message, or a result, stays."""
        if message in self._texts or message in self._silent:
            return True
        return message not in self._calls_of and self._messages[message].get("role") == "tool"

    def staying(self) -> set[int]:
        """The messages of which anything stays."""
        return {*self._texts, *self._strays, *dict(self._calls), *dict(self._unanswered)}

    def parts(self, messages: Iterable[int]) -> dict[int, Part]:
        """What stays of each of these messages, which may be many: in few steps for each."""
        found: dict[int, Part] = {}
        stays, unanswered, arguments = self._calls, self._unanswered, self._arguments
        texts = self._texts
        for message in messages:
            calls = self._messages[message].get("tool_calls") or ()
            left: dict[int, str | None] = {}
            for call in range(len(calls)):
                place = message, call
                if place in stays or place in unanswered:
                    left[call] = arguments.get(place)
            shown = message in texts or self.shows(message)
            found[message] = shown, texts.get(message), len(calls), left
        return found

    def shows_whole(self, message: int) -> bool:
        """Whether a message, or a result, stays as it is."""
        return self.shows(message) and self.text(message) is None

    def shows_call(self, message: int, call: int) -> bool:
        """Whether the call stays that is the message's number `call`."""
        return (message, call) in self._calls or (message, call) in self._unanswered

    def arguments(self, message: int, call: int) -> str | None:
        """The arguments in place of a call's own; None: its own."""
        return self._arguments.get((message, call))

    def text(self, message: int) -> str | None:
        """The text in place of the message's own; None: its own. Empty: its text is left out."""
        return self._texts.get(message)

    def show_result(self, message: int) -> bool:
        """Also shows a result, complete, and its call. False when there is no such pair."""
        call = self._calls_of.get(message)
        if call is None:
            return False
        self._calls.add(call)
        self._arguments.pop(call, None)
        if call[0] not in self._texts:
            # Only the call comes back: of a message that left, the text stays left out.
            self._texts[call[0]] = ""
        self._texts[message] = None
        self._stubs.discard(message)
        return True

    def show_newest(self, newest: range, *, alternates: bool) -> None:
        """Show the model's newest message, the canonical messages `newest`, as it came.

        Its results that the plan omits are shown as a line. If the message `alternates` with
        others, the omitted step before it is shown as its text, one call and such a line: its text
        cannot be joined to the newest message.
        """
        if not newest:
            return
        for message in newest:
            self._texts[message] = None
            for number in range(len(self._messages[message].get("tool_calls") or ())):
                self._arguments.pop((message, number), None)
                self._calls.add((message, number))
        self._stub(newest, newest.stop)
        before = max((m for m in self.staying() if m < newest.start), default=-1)
        if not alternates or before < 0 or self._texts.get(before) == "":
            return
        answered = [c for c in self._answers(before, newest.start).values() if c[0] == before]
        if not answered or any(call in self._calls for call in answered):
            return
        call = min(answered)
        self._calls.add(call)
        if (size := len(self._body(call))) > LONGEST_STUB:
            self._arguments[call] = f'{{"left_out": "{size} characters"}}'
        self._stub(range(before, before + 1), before + 1)

    def _answers(self, start: int, end: int | None = None) -> dict[int, Call]:
        """Return the calls that the results in this part of the history answer, by result."""
        places = range(start, len(self._messages) if end is None else end)
        return {result: self._calls_of[result] for result in places if result in self._calls_of}

    def _stub(self, callers: range, start: int) -> None:
        """Show the omitted results of these messages' calls, behind `start`, as a line."""
        for result, call in self._answers(start).items():
            if call[0] in callers and call in self._calls and result not in self._texts:
                self._texts[result] = LEFT_OUT
                self._stubs.add(result)

    def _body(self, place: Call) -> str:
        """Return a call's arguments."""
        call = self._messages[place[0]]["tool_calls"][place[1]]
        body = call[call["type"]]
        return str(body.get("arguments", body.get("input")) or "")

    def replace(self, message: int, text: str) -> None:
        """Puts a text in place of a message's own."""
        self._texts[message] = text

    def results_of(self, tools: Iterable[str]) -> list[int]:
        """The results of calls of these tools (names, globs), by position."""
        patterns = list(tools)
        return sorted(
            result
            for result, call in (self._calls_of.items() if patterns else ())
            if any(fnmatchcase(self._tool(call), pattern) for pattern in patterns)
        )

    def _tool(self, place: Call) -> str:
        """The name of a call's tool."""
        call = self._messages[place[0]]["tool_calls"][place[1]]
        return str(call[call["type"]]["name"])

    def shown_strays(self) -> list[int]:
        """Return the results without a call that are sent though the plan omits them."""
        return sorted(result for result in self._strays if result not in self._texts)

    def hidden(self) -> list[int]:
        """The results not shown at all, by position."""
        return sorted(r for r in self._calls_of if r not in self._texts or r in self._stubs)


class Pairs:
    """Which call each result answers: the first open one of its id in the latest message that used
    that id.
    """

    def __init__(self, messages: Sequence[Message], before: Pairs | None = None) -> None:
        """`before` are the pairs of a history with which `messages` begin.

        `answered` has the call (message, number) by the result's position, `strays` the results
        that answer none.
        """
        self.answered: dict[int, Call] = dict(before.answered) if before else {}
        self.strays: set[int] = set(before.strays) if before else set()
        self._open: dict[str, list[Call]] = {}
        if before:
            self._open = {name: list(calls) for name, calls in before._open.items()}
        self._read: int = before._read if before else 0
        for message in messages[self._read :]:
            self._add(message)

    def unanswered(self) -> set[Call]:
        """The calls without a result."""
        return {call for calls in self._open.values() for call in calls}

    def _add(self, message: Message) -> None:
        position = self._read
        self._read += 1
        role = message.get("role")
        if role == "assistant":
            for number, call in enumerate(message.get("tool_calls") or ()):
                self._open.setdefault(call["id"], []).append((position, number))
        elif role == "tool":
            name = message["tool_call_id"]
            calls = self._open.get(name)
            if calls is None:
                self.strays.add(position)
                return
            found = next(call for call in calls if call[0] == calls[-1][0])
            calls.remove(found)
            if not calls:
                del self._open[name]
            self.answered[position] = found
