"""Chat messages without tool calls, in which user messages contain the results.

ReAct and code agents send them: an assistant message has an action, and the next user message has
its output (`Output:`, `Observation:`, `[OUTPUT OF STEP 3]`, `<returncode>`). Each such pair is read
as a tool call and its result, with ids made from their position.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from contextrender_bridge.base.wire import Json
from contextrender_bridge.dialects.base import (
    Body,
    Dialect,
    NumberedItem,
    Transcript,
    reusable_transcript,
)
from contextrender_bridge.dialects.chat import ItemTranscript, canonical_message
from contextrender_bridge.dialects.contents import (
    plain_text,
    with_text,
)
from contextrender_bridge.dialects.message_plan import OMITTED_TEXT, MessagePlan

_OBSERVATION = re.compile(
    r"""\s*(?:
        \[OUTPUT\ OF\ STEP\ \d+\]
        | (?:Call\ id:[^\n]*\n)? (?:Observation|OBSERVATION|Execution\ (?:logs|output)|Output) :
        | <returncode> | <exception> | <observation>
    )""",
    re.VERBOSE,
)
_RESULT_ROLE = "tool-response"
_CALLING_ROLES = ("assistant", "tool-call")
CALL_NAME = "act"
NOT_SHOWN = f"Output: {OMITTED_TEXT}"
"""The text in place of an omitted result, if one must be there.

The last result needs one, because a request must not end with a message of the model.
"""


class ObservationTranscript(ItemTranscript):
    """The transcript of a request with observations; each item is one message.

    An observation is the result of the message before it.
    """

    def __init__(self, body: Body, previous: Transcript | None = None) -> None:
        """Read the body's `messages`. Continue from `previous`, an earlier transcript, if possible.

        Read an observation after a message of the model as the result of a call in that message.
        Add each other message in its canonical form. Items that cannot be read are always sent.

        A message of the model thus changes if an observation follows it. So if the last message is
        of the model, it may still change, and no later transcript can continue from this one.
        """
        earlier = reusable_transcript(previous, ObservationTranscript)
        if earlier:
            next_items = body["messages"][earlier.stable_count : earlier.stable_count + 1]
            if any(map(is_observation, next_items)):
                earlier = None  # The last message of the model in it gets another call.
        # The position of the model's message that an observation would follow; -1 without one.
        self._model_position = -1
        super().__init__(body, earlier)
        if self._model_position == len(self.messages) - 1:
            self.stable_count = 0  # This is rare: requests usually end with a result or the user.

    def _read(self, index: int, item: Any) -> bool:
        if self._model_position >= 0 and is_observation(item):
            self._add_result_with_call(self._model_position, item)
            return True
        self._model_position = -1
        message = canonical_message(_as_chat(item))
        if message is None:
            return False
        if message["role"] == "assistant":
            self._model_position = len(self.messages)
        self.messages.append(message)
        return True

    def _shown_items(self, plan: MessagePlan) -> list[NumberedItem]:
        shown_items: list[NumberedItem] = []
        last_item = self._item_of[-1:]  # empty if there is no message
        for index in sorted({*self._remaining_items(plan), *last_item}):
            item, message = self._items[index], self.positions[index]
            if message is None:
                shown_items.append((index, item))
            elif (shown_item := self._shown_item(item, message, plan)) is not None:
                shown_items.append((index, shown_item))
        return shown_items

    def _shown_item(self, item: Json, message: int, plan: MessagePlan) -> Json | None:
        """Return the item of the message at position `message` as shown; None if it is omitted."""
        # `text` is None if the message is shown unchanged, and empty if it is omitted.
        part = plan.part(message)
        text = part.text
        if not part.is_shown:
            # A request must not end with a message of the model, so a text replaces the last
            # result.
            is_last = message == len(self.messages) - 1
            text = NOT_SHOWN if is_last and self.messages[message]["role"] == "tool" else ""
        if text is None:
            return item
        if not text:
            return None
        text = NOT_SHOWN if text is OMITTED_TEXT else text
        return {**item, "content": with_text(item.get("content"), text)}

    def result(self, message: int) -> Any:
        """Return the content of the observation at position `message`."""
        return self._results[message].get("content")

    def _add_result_with_call(self, caller: int, item: Mapping[str, Any]) -> None:
        """Add an observation as a tool result, and add its call to an earlier message.

        The agent sends no calls, but each result needs one. So make a call with the name
        `CALL_NAME`, and add it to the model's message at position `caller`.
        """
        call_id = f"step-{len(self.messages)}"
        # The canonical message may be the caller's own object, so it is copied.
        message = self.messages[caller]
        call = {"id": call_id, "type": "function", "function": {"name": CALL_NAME, "arguments": ""}}
        self.messages[caller] = {**message, "tool_calls": [*message.get("tool_calls", ()), call]}
        self._add_result(item, call_id, item.get("content"))


OBSERVATIONS = Dialect("messages", ObservationTranscript)


def is_observation(item: Any) -> bool:
    """Return whether a message has the form of an observation.

    It has the role `tool-response`, or is a user message that begins with a known mark.
    """
    if not isinstance(item, Mapping) or not isinstance(item.get("content"), (str, list)):
        return False
    if item.get("role") == _RESULT_ROLE:
        return True
    return item.get("role") == "user" and bool(_OBSERVATION.match(plain_text(item["content"])))


def has_observations(body: Body) -> bool:
    """Return whether a chat request has an observation right after a message of the model."""
    return any(
        before.get("role") in _CALLING_ROLES and is_observation(item)
        for before, item in pairwise(body["messages"])
    )


def _as_chat(item: Any) -> Any:
    """Return a message with a role of chat completions, and without tool calls.

    smolagents has the roles `tool-call` and `tool-response`, which become `assistant` and `user`.
    Remove a message's tool calls, because in this format each observation gets a generated call
    (`_add_result_with_call`). Return anything other than a message unchanged.
    """
    if not isinstance(item, Mapping):
        return item
    if item.get("role") == "tool-call":
        return {**item, "role": "assistant"}
    if item.get("role") == _RESULT_ROLE:
        return {**item, "role": "user"}
    if item.get("tool_calls"):
        return {key: item[key] for key in item if key != "tool_calls"}
    return item
