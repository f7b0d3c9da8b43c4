"""What a provider said of one model call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.settings import SENT, check_sent, short_name

NO_BILL: Final = (0, 0, 0, 0, 0)
FIELDS: Final = ("messages", "tokens", "sent", "model", "added", "declared")
MOST_TOOLS: Final = 1_000


@dataclass(slots=True, frozen=True)
class ProviderUsage:
    """What a provider said that the call with `messages` messages used, and what it was sent.

    `added` are tokens that the whole history would have been sent without: of our own tool.
    `declared` are the tokens of each tool's declaration in the request; None where it is not told.
    """

    messages: int
    billed: tuple[int, ...] | None
    sent: str = ""
    model: str = ""
    added: int = 0
    declared: Mapping[str, int] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """From outside. Raises InvalidRequest."""
        unknown = set(given).difference(FIELDS)
        messages, tokens = given.get("messages"), given.get("tokens")
        if unknown or type(messages) is not int or messages < 1:
            raise InvalidRequest(f"used has {', '.join(FIELDS)}; messages from 1")
        if not isinstance(tokens, list) or len(tokens) not in (0, len(NO_BILL)):
            raise InvalidRequest(
                "used.tokens are fresh, read, written, written for long, output, or none"
            )
        declared = given.get("declared")
        if declared is not None and (
            not isinstance(declared, Mapping) or len(declared) > MOST_TOOLS
        ):
            raise InvalidRequest(f"used.declared has tokens by name, of at most {MOST_TOOLS} tools")
        counts = *tokens, (added := given.get("added", 0)), *(declared or {}).values()
        if not all(type(count) is int and 0 <= count < 2**40 for count in counts):
            raise InvalidRequest("used: tokens, added and declared must be whole numbers")
        sent, model = str(given.get("sent") or ""), short_name(str(given.get("model") or ""))
        check_sent(sent or SENT[0])
        if declared is not None:
            declared = {short_name(name): count for name, count in declared.items()}
        return cls(messages, tuple(tokens) or None, sent, model, added, declared)

    def on(self, record: CallRecord, *, counted: bool = False) -> CallRecord:
        """The record with this said of it; one that was `counted` keeps what it was counted under.

        What a call that went whole would have been shown is not noted, so it stays whole.
        """
        record = replace(record, added=self.added)
        if counted:
            return replace(record, billed=self.billed)
        sent = record.sent if record.whole and self.sent == SENT[0] else self.sent or record.sent
        told = replace(record, billed=self.billed, sent=sent, model=self.model or record.model)
        return told.as_sent()
