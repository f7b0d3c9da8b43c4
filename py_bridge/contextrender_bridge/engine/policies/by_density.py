"""Policies that rank results by their reuse for their size, S (docs/policies.md)."""

import math

from contextrender_bridge.engine.plan.call_context import next_call
from contextrender_bridge.engine.plan.call_text import select_text
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
    """Select the newest turn's results, then pinned results, then complete results by S."""
    moment = next_call(view)
    choice, density = SelectionBuilder(moment, select_text(moment)), density_of(moment)
    free = max(0, choice.free)
    take_newest(choice, view.parameters.newest_share * free, density, math.inf)
    take_pinned(choice, density)
    choice.take_greedily(density.order, free)
    return selection_of(choice, density)


def contextrender_excerpts(view: PolicyInput) -> Selection:
    """Select the newest results, complete results by S, and excerpts of text shown nowhere else."""
    moment = next_call(view)
    density = density_of(moment)
    choice = SelectionBuilder(moment, select_text(moment))
    return selection_of(select_in_parts(choice, density, most=math.inf), density)


IN_PART = "only the parts with values that are visible nowhere else"


def selection_of(choice: SelectionBuilder, density: Density) -> Selection:
    """Return what the builder has selected for the next call."""
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
