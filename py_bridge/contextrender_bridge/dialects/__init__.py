"""The request formats: reading a request as canonical chat messages, and applying a plan to it.

`read` returns the canonical messages that the service records. `apply` omits or shortens the
request's items according to a plan for those messages. Items that are shown in full are sent with
their original contents. Items that cannot be read are always sent.
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
