"""The plan of a prompt: the messages, calls and results that it has, and the substitutes in it.

Calls without a result and results without a call are always shown, because the provider may have
the other half. The model's newest message is sent unchanged, because some providers refuse it
otherwise. Long because the plan, its pairs and their rules need each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

OMITTED_TEXT = "[left out: it does not fit]"
"""The line in place of an omitted result whose call is in the prompt."""
MAX_STUB_CHARS = 400
"""Longer arguments are replaced if a call is shown only to separate two of the model's messages."""
Message = Mapping[str, Any]
Call = tuple[int, int]
"""A tool call: the position of its message, and its number among the message's calls."""


class ShownParts(NamedTuple):
    """The parts of a message that the prompt has.

    - `is_shown`: the prompt has the message itself, not only calls of it.
    - `text`: the substitute for the message's text; None for its own, "" if it is omitted.
    - `call_count`: the number of all its calls.
    - `calls`: the substitute arguments of each call in the prompt, by number; None for its own.
    """

    is_shown: bool
    text: str | None
    call_count: int
    calls: dict[int, str | None]


class MessagePlan:
    """The canonical messages, calls and texts that a prompt has, by message position."""

    def __init__(
        self,
        messages: Sequence[Message],
        rows: Iterable[Mapping[str, Any]],
        breakpoints: Iterable[int] = (),
        call_pairs: CallPairs | None = None,
    ) -> None:
        """Read the rows in the `plan` of a render reply.

        A row has the position of its `message`, the numbers of the `calls` in the prompt, and
        perhaps a substitute `text` and substitute `arguments` of these calls. `breakpoints` are the
        messages up to which the prompt can be cached. `call_pairs` has the pairs of calls and
        results in `messages`; if it is None, find them here.
        """
        call_pairs = call_pairs or CallPairs(messages)
        self.breakpoints = tuple(breakpoints)
        self._messages = messages
        self._calls_of = call_pairs.call_of_result
        self._unanswered = call_pairs.unanswered()  # the calls without a result
        self._unpaired_results = call_pairs.unpaired_results
        # Messages with nothing but calls, of which at least one has no result. They are always
        # shown, because such calls are.
        self._textless_callers = {
            position for position, _ in self._unanswered if not messages[position].get("content")
        }
        # The shown messages with their substitute texts: None for a message's own text, "" if the
        # text is omitted and only calls are shown.
        self._texts: dict[int, str | None] = {}
        self._calls: set[Call] = set()  # the shown calls
        self._stubs: set[int] = set()  # omitted results that a line replaces
        self._arguments: dict[Call, str] = {}  # substitutes for the arguments of shown calls
        for row in rows:
            position = row["message"]
            self._texts[position] = row.get("text")
            for call in row["calls"]:
                self._calls.add((position, call))
            if arguments := row.get("arguments"):
                for call, text in zip(row["calls"], arguments, strict=False):
                    if text is not None:
                        self._arguments[position, call] = text

    @classmethod
    def full_history(cls, messages: Sequence[Message]) -> MessagePlan:
        """Return the plan that omits nothing."""
        return cls(
            messages,
            (
                {"message": position, "calls": range(len(message.get("tool_calls") or ()))}
                for position, message in enumerate(messages)
            ),
        )

    def _shows(self, message: int) -> bool:
        """Return whether the prompt has the message or result at a position, at least in part."""
        if message in self._texts or message in self._textless_callers:
            return True
        # A result that answers no call is always shown.
        return message not in self._calls_of and self._messages[message].get("role") == "tool"

    def remaining_messages(self) -> set[int]:
        """Return the positions of the messages that are in the prompt, at least in part."""
        callers = {message for message, _ in self._calls | self._unanswered}
        return {*self._texts, *self._unpaired_results, *callers}

    def parts(self, messages: Iterable[int]) -> dict[int, ShownParts]:
        """Return what the prompt shows of each message at these positions, by position.

        It shows the calls of the plan, and all calls without a result.
        """
        # Local names make this loop over long histories faster.
        planned, unanswered = self._calls, self._unanswered
        arguments, texts, parts = self._arguments, self._texts, dict[int, ShownParts]()
        for message in messages:
            calls = self._messages[message].get("tool_calls") or ()
            remaining_calls: dict[int, str | None] = {}
            for call in range(len(calls)):
                key = message, call
                if key in planned or key in unanswered:
                    remaining_calls[call] = arguments.get(key)
            # `_shows` is slow and covers more than the plan: some messages are always shown.
            is_shown = message in texts or self._shows(message)
            parts[message] = ShownParts(is_shown, texts.get(message), len(calls), remaining_calls)
        return parts

    def part(self, message: int) -> ShownParts:
        """Return what the prompt shows of the message at a position."""
        return self.parts([message])[message]

    def shows_complete(self, message: int) -> bool:
        """Return whether the prompt has the message or result with its own text."""
        return self._shows(message) and self._texts.get(message) is None

    def show_result(self, message: int) -> bool:
        """Add a complete result and its call to the prompt.

        Return False, and change nothing, if the result answers no call.
        """
        call = self._calls_of.get(message)
        if call is None:
            return False
        caller, _ = call
        self._calls.add(call)
        self._arguments.pop(call, None)
        if caller not in self._texts:
            # Show only the call: an empty text omits the text of its message.
            self._texts[caller] = ""
        self._texts[message] = None  # its own text
        self._stubs.discard(message)
        return True

    def show_newest(
        self, newest: range, *, alternates: bool, answer_ends: Mapping[int, int] | None = None
    ) -> None:
        """Show the model's newest answer, the messages at the positions `newest`, unchanged.

        Show a line in place of each omitted result of its calls. If `alternates` is true, messages
        of the model must not be neighbours, so also show a result before the newest answer.
        `answer_ends` maps each message of an answer with several messages to the answer's last one.
        """
        if not newest:
            return
        # Show the answer's texts and calls, without substitutes, and the results of its calls.
        for message in newest:
            self._texts[message] = None  # its own text
            for number in range(len(self._messages[message].get("tool_calls") or ())):
                self._arguments.pop((message, number), None)
                self._calls.add((message, number))
        self._show_stubs(newest, newest.stop)
        if alternates:
            self._separate_from_previous(newest.start, answer_ends or {})

    def _separate_from_previous(self, newest: int, answer_ends: Mapping[int, int]) -> None:
        """Show a result between the newest answer and the model's message before it.

        The newest answer must not change, so it cannot be merged with that message. `newest` is the
        position of its first message. `answer_ends` is that of `show_newest`.
        """
        # Find the last shown message before the newest answer. If its answer has several messages,
        # take the last of these: only that one has calls whose results separate the answers.
        last_shown = max((m for m in self.remaining_messages() if m < newest), default=-1)
        answer_end = answer_ends.get(last_shown, last_shown)
        # If a message's text is omitted (""), its calls are shown, and so are their results. These
        # results separate it from the newest answer already.
        has_only_calls = self._texts.get(answer_end) == ""
        if answer_end >= 0 and not has_only_calls:
            self._separate(answer_end, newest)

    def _separate(self, message: int, newest: int) -> None:
        """Show a result between `message` and the model's newest answer, if there is none.

        Otherwise these two messages of the model would be neighbours, which some providers refuse.
        Show the first call of `message`, and a line in place of the call's result. Replace the
        call's arguments if they are longer than `MAX_STUB_CHARS`. `newest` is the position of the
        newest answer.
        """
        # The calls of `message` that have a result before the newest answer.
        calls = [call for call in self._answers(message, newest).values() if call[0] == message]
        if not calls or any(call in self._calls for call in calls):
            return
        call = min(calls)
        self._calls.add(call)
        body = self._body(call)
        own_arguments = str(body.get("arguments", body.get("input")) or "")
        if (size := len(own_arguments)) > MAX_STUB_CHARS:
            self._arguments[call] = f'{{"left_out": "{size} characters"}}'
        self._show_stubs(range(message, message + 1), message + 1)

    def _answers(self, start: int, end: int | None = None) -> dict[int, Call]:
        """Return a dictionary that maps the results from `start` up to `end` to their calls.

        Leave out results that answer no call. If `end` is None, include all later results.
        """
        results = range(start, len(self._messages) if end is None else end)
        return {result: self._calls_of[result] for result in results if result in self._calls_of}

    def _show_stubs(self, callers: range, start: int) -> None:
        """Show a line in place of each omitted result whose call is shown.

        Consider only results from position `start` on, of calls in the messages `callers`.
        """
        for result, call in self._answers(start).items():
            if call[0] in callers and call in self._calls and result not in self._texts:
                self._texts[result] = OMITTED_TEXT
                self._stubs.add(result)

    def replace(self, message: int, text: str) -> None:
        """Show `text` instead of the message's own text."""
        self._texts[message] = text

    def results_of(self, tools: Iterable[str]) -> list[int]:
        """Return the positions of the results of these tools, given as names or globs."""
        patterns = list(tools)
        return sorted(
            result
            for result, call in self._calls_of.items()
            if any(fnmatchcase(str(self._body(call)["name"]), pattern) for pattern in patterns)
        )

    def _body(self, call: Call) -> Mapping[str, Any]:
        """Return the object with a call's name and arguments."""
        message, number = call
        fields = self._messages[message]["tool_calls"][number]
        body: Mapping[str, Any] = fields[fields["type"]]
        return body

    def shown_unpaired_results(self) -> list[int]:
        """Return the positions of results that answer no call and that the plan does not select.

        The prompt has them all the same, because the provider may have their calls. `_texts` has
        the messages that the plan selects.
        """
        return sorted(result for result in self._unpaired_results if result not in self._texts)

    def omitted_results(self) -> list[int]:
        """Return the positions of the results that are omitted, or replaced by a line."""
        return sorted(r for r in self._calls_of if r not in self._texts or r in self._stubs)


class CallPairs:
    """The pairs of calls and results in a history.

    A call is open until it has a result. Several open calls may have the same id. A result with
    this id then answers a call of the latest message that has such calls, and the first one there.

    - `call_of_result` has the call that each result answers, by the result's position.
    - `unpaired_results` has the positions of the results that answer no call.
    """

    def __init__(self, messages: Sequence[Message], previous: CallPairs | None = None) -> None:
        """Pair the calls and results in `messages`.

        `previous` has the pairs of the first messages, which are not read again.
        """
        self.call_of_result: dict[int, Call] = dict(previous.call_of_result) if previous else {}
        self.unpaired_results: set[int] = set(previous.unpaired_results) if previous else set()
        self._open_calls: dict[str, list[Call]] = {}  # by id
        if previous:
            self._open_calls = {id: list(calls) for id, calls in previous._open_calls.items()}
        self._read_count: int = previous._read_count if previous else 0
        for message in messages[self._read_count :]:
            self._add(message)

    def unanswered(self) -> set[Call]:
        """Return the calls without a result."""
        return {call for calls in self._open_calls.values() for call in calls}

    def _add(self, message: Message) -> None:
        """Open the calls of an assistant message, or pair a result with its call."""
        position = self._read_count
        self._read_count += 1
        role = message.get("role")
        if role == "assistant":
            for number, call in enumerate(message.get("tool_calls") or ()):
                self._open_calls.setdefault(call["id"], []).append((position, number))
        elif role == "tool":
            self._pair(position, message["tool_call_id"])

    def _pair(self, result: int, call_id: str) -> None:
        """Pair a result with the first open call of this id in the latest message that has one."""
        calls = self._open_calls.get(call_id)  # in the order of the history
        if calls is None:
            self.unpaired_results.add(result)
            return
        latest_message, _ = calls[-1]
        call = next(call for call in calls if call[0] == latest_message)
        calls.remove(call)
        if not calls:
            del self._open_calls[call_id]
        self.call_of_result[result] = call
