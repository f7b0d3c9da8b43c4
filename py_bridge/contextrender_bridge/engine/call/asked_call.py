"""A call that was asked for, as it was recorded or by today's rules."""

from dataclasses import dataclass

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.settings import RenderSettings
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.selection import Selection


@dataclass(slots=True, frozen=True)
class AskedCall:
    """A call that was asked for.

    `record` is there if the call was recorded and no other setting is tried. `shown` is what it
    showed, and `sent` are the messages that the model got. `rendered` is by today's rules if the
    reasons follow from them.
    """

    settings: RenderSettings
    record: CallRecord | None
    shown: Selection
    sent: RenderedCall
    rendered: RenderedCall

    @property
    def history(self) -> History:
        """The history before the call."""
        return self.rendered.view.history
