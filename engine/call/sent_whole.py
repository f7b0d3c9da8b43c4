"""What a call showed when the whole history was sent instead of its rendering."""

from itertools import pairwise

from engine.call.render_call import Rendered
from engine.plan.plan import Plan, Shown
from engine.plan.view import everything


def sent_whole(rendered: Rendered) -> Rendered:
    """Every message as it is, with all of its calls: orphans, too."""
    history = rendered.view.history
    plan = Plan(everything(rendered.view).retained, list(range(len(history.results))))
    firsts = [*history.first_events, history.events]
    items = [
        Shown(message, tuple(range(stop - first - 1)))
        for message, (first, stop) in enumerate(pairwise(firsts))
    ]
    return Rendered(rendered.view, plan, items)
