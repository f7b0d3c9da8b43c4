"""The usage that a provider reported of one model call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Self

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.usage import (
    NO_REPLY,
    REPLY_FIELDS,
    TOKEN_FIELDS,
    ProviderReply,
    are_counts,
)
from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.settings import RENDERED, check_delivery, short_name

FIELDS: Final = (
    *("messages", *TOKEN_FIELDS, "delivery", "model", "requested_model"),
    *("added_tokens", "declared_tokens"),
    *REPLY_FIELDS,
)
MAX_TOOLS: Final = 1_000


@dataclass(slots=True, frozen=True)
class ProviderUsage:
    """The usage of the call that had `messages` messages, and the delivery of its history.

    - `tokens` has the counts of `TOKEN_FIELDS`. It is None if the provider reported no counts.
    - `model` is the model's name in the provider's reply, `requested_model` its name in the
      request.
    - `added_tokens` are the tokens of our own recall tool. The full history would not have them.
    - `declared_tokens` maps each tool's name to the tokens of its declaration in the request. It is
      None if they are unknown.
    """

    messages: int
    tokens: tuple[int, ...] | None
    delivery: str = ""
    model: str = ""
    requested_model: str = ""
    added_tokens: int = 0
    declared_tokens: Mapping[str, int] | None = None
    reply: ProviderReply = NO_REPLY

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Read the `usage` field of a request. Raise InvalidRequest if it is wrong.

        Names of models and tools are cut if they are too long.
        """
        # The names of the fields, the number of messages and the declared tools.
        messages = fields.get("messages")
        if set(fields).difference(FIELDS) or type(messages) is not int or messages < 1:
            raise InvalidRequest(f"usage has {', '.join(FIELDS)}; messages must be at least 1")
        declared = fields.get("declared_tokens")
        if declared is not None and (
            not isinstance(declared, Mapping) or len(declared) > MAX_TOOLS
        ):
            raise InvalidRequest(
                f"usage.declared_tokens must map at most {MAX_TOOLS} tool names to tokens"
            )

        # All counts must be whole numbers; a missing count is 0.
        tokens = tuple(fields.get(name, 0) for name in TOKEN_FIELDS)
        added = fields.get("added_tokens", 0)
        if not are_counts((*tokens, added, *(declared or {}).values())):
            raise InvalidRequest("usage: token counts must be whole numbers from 0")
        reply = ProviderReply.of({name: fields[name] for name in REPLY_FIELDS if name in fields})

        delivery = str(fields.get("delivery") or "")
        check_delivery(delivery or RENDERED)

        # If no token count is given, the provider reported none, so `tokens` is None.
        if declared is not None:
            declared = {short_name(name): count for name, count in declared.items()}
        has_token_counts = any(name in fields for name in TOKEN_FIELDS)
        return cls(
            messages,
            tokens=tokens if has_token_counts else None,
            delivery=delivery,
            model=short_name(str(fields.get("model") or "")),
            requested_model=short_name(str(fields.get("requested_model") or "")),
            added_tokens=added,
            declared_tokens=declared,
            reply=reply,
        )

    def is_of_other_call(self, record: CallRecord) -> bool:
        """Return whether this usage belongs to another call with the same history.

        It does if the models differ. Until a record has usage, its model is the name in the
        request. Afterwards it is the name in the provider's reply.
        """
        if record.usage is not None:
            return bool(self.model) and self.model != record.model
        are_both_known = bool(self.requested_model and record.model)
        return are_both_known and self.requested_model != record.model

    def add_to(self, record: CallRecord, *, in_totals: bool = False) -> CallRecord:
        """Return a copy of `record` with this usage and reply, and the reported model and delivery.

        If the record is already in the session's totals (`in_totals`), it keeps its delivery.
        """
        record = replace(record, added_tokens=self.added_tokens, reply=self.reply)
        if in_totals:
            return replace(record, usage=self.tokens, model=self.model or record.model)
        delivery = self.delivery or record.delivery
        # If the record says that the full history was sent, it no longer has the token counts of
        # the rendering, so it cannot become the record of a rendered call.
        if record.sent_full and self.delivery == RENDERED:
            delivery = record.delivery
        return replace(
            record, usage=self.tokens, delivery=delivery, model=self.model or record.model
        ).with_sent_tokens()
