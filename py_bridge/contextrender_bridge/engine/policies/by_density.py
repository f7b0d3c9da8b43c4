"""Results by reuse for their size, complete or in part too (docs/policies.md)."""

import math

from contextrender_bridge.engine.plan.call_context import present
from contextrender_bridge.engine.plan.call_text import text_at
from contextrender_bridge.engine.plan.density import Density, density_of
from contextrender_bridge.engine.plan.fill_selection import (
    select_in_parts,
    take_newest,
    take_pinned,
)
from contextrender_bridge.engine.plan.policy_input import PolicyInput
from contextrender_bridge.engine.plan.selection import ScoreTable, Selection
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder


def reuse_density(view: PolicyInput) -> Selection:
    """The newest turn's results first, then pinned ones, then complete ones greedily by S."""
    moment = present(view)
    choice, density = SelectionBuilder(moment, text_at(moment)), density_of(moment)
    free = max(0, choice.free)
    take_newest(choice, view.parameters.newest_share * free, density, math.inf)
    take_pinned(choice, density)
    choice.take_greedily(density.order, free)
    return selection_of(choice, density)


def contextrender_excerpts(view: PolicyInput) -> Selection:
    """The newest results, complete ones by S, and excerpts of what else is new."""
    moment = present(view)
    density = density_of(moment)
    choice = SelectionBuilder(moment, text_at(moment))
    return selection_of(select_in_parts(choice, density, most=math.inf), density)


IN_PART = "the parts that say what is shown nowhere else"


def selection_of(choice: SelectionBuilder, density: Density) -> Selection:
    """Return the selection of a choice made for the next call."""
    texts = choice.excerpts()
    return Selection(
        choice.moment.messages,
        choice.text,
        tuple(choice.complete),
        texts,
        arguments=choice.arguments,
        scores=ScoreTable(None, density.scores, density.scores),
        reasons=dict.fromkeys(texts, IN_PART),
    )
