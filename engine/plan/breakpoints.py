"""Where a prompt that will be repeated is worth a cache breakpoint (docs/policies.md).

Providers that cache up to marked places read again only what was marked before.
"""

from typing import Final

import numpy as np

from engine.history.frozen import Replacement
from engine.plan.choice import Choice
from engine.plan.text_cap import sizes_of

QUARTERS: Final = (0.25, 0.5, 0.75)
MOST: Final = 3


def breakpoints_of(
    choice: Choice, excerpts: dict[int, Replacement], cut: int, before: tuple[int, ...]
) -> tuple[int, ...]:
    """Positions of messages: about the quarters of the prompt, the end not among them.

    If the prompt stays the same up to `cut`, the last of the breakpoints `before` within it is
    kept; without one the cut becomes one. A cache can be read only from these.
    """
    sizes = _prompt_sizes(choice, excerpts)
    ends = np.cumsum(sizes)
    quarters = np.searchsorted(ends, [share * ends[-1] for share in QUARTERS]).tolist()
    kept = [position for position in before if position <= cut] or [cut] * (cut >= 0)
    behind = [position for position in quarters if position > max(kept, default=-1)]
    return tuple(sorted({*kept[-1:], *behind[len(kept[-1:]) - MOST :]}))


def _prompt_sizes(choice: Choice, excerpts: dict[int, Replacement]) -> np.ndarray:
    """Tokens of each message as it is shown."""
    moment, history = choice.moment, choice.moment.view.history
    results, sizes = history.results, sizes_of(choice.text, moment)
    outside = list(moment.outside)
    sizes[outside] = np.array(history.text_tokens, np.int64)[outside]
    for result in (*choice.complete, *excerpts):
        made = excerpts.get(result)
        sizes[results.call_message[result]] += choice.calls[result]
        sizes[results.message[result]] += made.tokens if made else results.tokens[result]
    return sizes
