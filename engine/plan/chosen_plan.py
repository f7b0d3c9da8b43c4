"""The plan that shows what was chosen."""

from engine.plan.choice import Choice
from engine.plan.density import Density
from engine.plan.plan import Plan, ScoreTable
from engine.plan.text_cap import retained_with

IN_PART = "the parts that say what is shown nowhere else"


def plan_of(choice: Choice, density: Density) -> Plan:
    """The plan of a choice made for the next invocation."""
    texts = choice.excerpts()
    return Plan(
        retained_with(choice.moment, choice.text),
        choice.complete,
        {result: made.tokens for result, made in texts.items()},
        ScoreTable(None, density.scores, density.scores),
        texts=texts,
        calls=choice.cut_calls,
        reasons=dict.fromkeys(texts, IN_PART),
    )
