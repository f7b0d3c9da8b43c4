"""The misses of a rendering, with the reason why each result was not complete."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from contextrender_bridge.engine.call.explain import ResultDecision, ResultDecisions
from contextrender_bridge.engine.call.missing_results import MissingResult, missing_results
from contextrender_bridge.engine.call.render_call import RenderedCall, assemble_all
from contextrender_bridge.engine.replay.branch_replay import BranchReplay
from contextrender_bridge.engine.text.tokens import message_texts

OTHERWISE_TODAY: Final = "so it was when the call was made; today it would be shown"


@dataclass(slots=True, frozen=True)
class Miss:
    """A missing result, and why it was not complete in the prompt.

    `cost` is the number of tokens that the complete result and its call would have taken.
    """

    missing_result: MissingResult
    decision: ResultDecision
    cost: int


def missing_in(
    branch: BranchReplay, rendered: RenderedCall, turn: int
) -> tuple[MissingResult, ...]:
    """Return the results that the answer of `turn` used and the rendered prompt did not show.

    Return none if the call has no answer.
    """
    answer, messages = branch.answer_to(turn), branch.full_history.messages
    if answer is None:
        return ()

    def read_prompt() -> list[str]:
        """Return the texts of the rendered prompt."""
        prompt = assemble_all(
            rendered.items, lambda positions: [messages[position] or {} for position in positions]
        )
        return message_texts(prompt)

    complete = frozenset(rendered.selection.complete)
    return missing_results(
        branch.full_history, answer, complete, prompt=read_prompt, texts_of=branch.texts_of
    )


def misses_of(rendered: RenderedCall, missing_results: Sequence[MissingResult]) -> tuple[Miss, ...]:
    """Return the misses of a call. The reasons are read from `rendered`, its rendering today."""
    decisions = ResultDecisions(rendered)
    misses: list[Miss] = []
    for missing_result in missing_results:
        decision = decisions.of(missing_result.result)
        # Today's rules would show the result, but the rules at the time of the call omitted it.
        if decision.display == "complete":
            decision = replace(decision, display="omitted", reason=OTHERWISE_TODAY)
        cost = int(rendered.context.costs[missing_result.result])
        misses.append(Miss(missing_result, decision, cost))
    return tuple(misses)
