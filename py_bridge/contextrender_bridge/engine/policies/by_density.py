"""Policies that rank results by their result score: the expected use of a result for its size."""

import math

from contextrender_bridge.engine.plan.call_context import CallContext
from contextrender_bridge.engine.plan.call_text import select_text
from contextrender_bridge.engine.plan.fill_selection import (
    select_results,
    take_newest,
    take_pinned,
)
from contextrender_bridge.engine.plan.scores import Scores, scores_of
from contextrender_bridge.engine.plan.selection import ScoreTable, Selection
from contextrender_bridge.engine.plan.selection_builder import SelectionBuilder


def reuse_density(context: CallContext) -> Selection:
    """Select the newest turn's results, then pinned results, then other results complete.

    The other results are selected in the order of their result scores ("Result score" in
    docs/policies.md). Only newest and pinned results may be shown as excerpts.
    """
    builder, scores = SelectionBuilder(context, select_text(context)), scores_of(context)
    budget = max(0, builder.budget_for_results)
    take_newest(builder, context.parameters.newest_share * budget, scores, math.inf)
    take_pinned(builder, scores)
    builder.select_in_order(scores.best_first, budget)
    return selection_of(builder, scores)


def contextrender_excerpts(context: CallContext) -> Selection:
    """Select the newest and pinned results, then other results complete, then excerpts of others.

    Complete results are selected in the order of their result scores ("Result score" in
    docs/policies.md).
    """
    scores = scores_of(context)
    builder = SelectionBuilder(context, select_text(context))
    return selection_of(select_results(builder, scores, max_excerpt=math.inf), scores)


IN_PART = "only the parts with values that are visible nowhere else"


def selection_of(builder: SelectionBuilder, scores: Scores) -> Selection:
    """Return the builder's selection, with scores and reasons that explain it.

    These policies embed no texts, so the score table has no relevance. Its usefulness is the result
    score.
    """
    texts = builder.finish_excerpts()
    return Selection(
        builder.context.message_count,
        builder.text,
        tuple(builder.complete),
        texts,
        arguments=builder.arguments,
        scores=ScoreTable(
            relevance=None, usefulness=scores.result_scores, score=scores.result_scores
        ),
        reasons=dict.fromkeys(texts, IN_PART),
    )
