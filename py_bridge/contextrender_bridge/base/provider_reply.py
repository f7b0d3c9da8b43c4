"""A provider's reply to one model call: its times, its status and its error code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from contextrender_bridge.base.errors import InvalidRequest
from contextrender_bridge.base.usage import is_count

ERROR_CODE: Final = re.compile(r"[A-Za-z0-9_.:-]{0,80}")
"""A provider's code or type of an error, possibly empty."""


@dataclass(slots=True, frozen=True)
class ProviderReply:
    """The milliseconds until the first and the last byte of a reply, its HTTP status, its error.

    `error` is the provider's code of a failure, never its text. Fields are 0 and empty if unknown.
    """

    first_byte_ms: int = 0
    reply_ms: int = 0
    status: int = 0
    error: str = ""

    @classmethod
    def of(cls, values: object) -> ProviderReply:
        """Return the reply with these fields. Raise InvalidRequest if one is unknown or invalid."""
        if not isinstance(values, Mapping) or set(values).difference(REPLY_FIELDS):
            raise InvalidRequest(f"a provider's reply has {', '.join(REPLY_FIELDS)}")
        reply = cls(**values)
        if not (isinstance(reply.error, str) and ERROR_CODE.fullmatch(reply.error)):
            raise InvalidRequest("error must be the code of a provider's error, not its text")
        if not all(map(is_count, (reply.first_byte_ms, reply.reply_ms, reply.status))):
            raise InvalidRequest("milliseconds and status must be whole numbers from 0")
        return reply

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are known."""
        return {name: value for name, value in asdict(self).items() if value}


REPLY_FIELDS: Final = tuple(field.name for field in fields(ProviderReply))
NO_REPLY: Final = ProviderReply()
