"""A call that a request asks for, as it was recorded or by today's rules."""

from dataclasses import dataclass

from contextrender_bridge.engine.call.call_record import CallRecord
from contextrender_bridge.engine.call.render_call import RenderedCall
from contextrender_bridge.engine.call.settings import RenderSettings
from contextrender_bridge.engine.history.history import History
from contextrender_bridge.engine.plan.selection import Selection


@dataclass(slots=True, frozen=True)
class AskedCall:
    """A call that a request asks for.

    `record` is None if the call was not recorded, or if the request tries other settings. `prompt`
    has the messages that the model received, and `selection` is its selection. `rendered` is a
    rendering by today's rules, which explains the selection. If the recorded calls explain the
    selection already, `rendered` is `prompt`.
    """

    settings: RenderSettings
    record: CallRecord | None
    selection: Selection
    prompt: RenderedCall
    rendered: RenderedCall

    @property
    def history(self) -> History:
        """The history before the call."""
        return self.rendered.view.history
