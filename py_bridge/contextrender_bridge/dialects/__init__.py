"""Transcripts as runtimes and providers write them, read as chat messages and cut down by a plan.

`read` gives the canonical view that the service records; `apply` takes a plan of that view back to
the original items, dropping or shortening what the plan leaves out. Nothing is re-encoded: an item
that stays is the item that came, and what is not understood stays.
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
