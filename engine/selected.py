"""The plan that shows what was chosen."""

from engine.choice import Choice
from engine.density import Density
from engine.rendering import Plan, ScoreTable
from engine.text_cap import retained_without

IN_PART = "the parts that say what is shown nowhere else"


def plan_of(choice: Choice, density: Density) -> Plan:
    """The plan of a choice made for the next invocation."""
    texts = choice.excerpts()
    return Plan(
        retained_without(choice.moment, choice.left),
        choice.complete,
        {result: made.tokens for result, made in texts.items()},
        ScoreTable(None, density.scores, density.scores),
        texts=texts,
        reasons=dict.fromkeys(texts, IN_PART),
    )
