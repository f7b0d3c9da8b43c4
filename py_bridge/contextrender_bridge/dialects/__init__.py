"""The request formats: reading a request as canonical chat messages, and applying a plan to it.

`read` returns the canonical messages that the service records. `apply` drops or shortens the
original items by a plan of those messages. An item that stays is the original one, and an item that
cannot be read stays.
"""

from contextrender_bridge.dialects.base import Dialect, Transcript
from contextrender_bridge.dialects.chat import CHAT
from contextrender_bridge.dialects.message_plan import MessagePlan
from contextrender_bridge.dialects.messages import MESSAGES
from contextrender_bridge.dialects.observations import OBSERVATIONS
from contextrender_bridge.dialects.responses import RESPONSES

DIALECTS: dict[str, Dialect] = {
    "chat": CHAT,
    "responses": RESPONSES,
    "messages": MESSAGES,
    "observations": OBSERVATIONS,
}

__all__ = [
    "CHAT",
    "DIALECTS",
    "MESSAGES",
    "OBSERVATIONS",
    "RESPONSES",
    "Dialect",
    "MessagePlan",
    "Transcript",
]
