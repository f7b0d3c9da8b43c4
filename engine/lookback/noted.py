"""A call as it was noted beside the same call recomputed by today's rules."""

from dataclasses import dataclass, replace

from engine.call.facts import CallFact
from engine.lookback.past import Past
from engine.lookback.pausing import pause
from engine.lookback.steps import Step


@dataclass(slots=True, frozen=True)
class NotedStep:
    """A call: as it was noted, if it was (`fact`), else as it is recomputed.

    `differs`: today's rules would show something else than what was noted.
    """

    step: Step
    fact: CallFact | None
    differs: bool = False


def noted_step(past: Past, step: Step) -> NotedStep:
    """A recomputed call, its facts put in the place of what was recomputed."""
    pause()
    fact = past.fact_at(step.turn)
    if fact is None:
        return NotedStep(step, None)
    in_view = fact.in_view
    told = replace(
        step,
        before=fact.before,
        after=fact.after,
        outside=fact.outside,
        retained=fact.retained,
        complete=fact.shown,
        replaced=fact.replaced,
        seen=sum(result in in_view for result in step.needed),
        missed=tuple(miss for miss in step.missed if miss.result not in in_view),
    )
    return NotedStep(told, fact, is_changed(fact, step.complete, step.replaced))


def is_changed(fact: CallFact, complete: tuple[int, ...], replaced: tuple[int, ...]) -> bool:
    """Whether a rendering shows other results than those noted."""
    return (fact.shown, fact.replaced) != (complete, replaced)
