"""The recommendation of one of several replayed settings: the cheapest one with few misses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from contextrender_bridge.engine.text.percentage import percent

MAX_MISS_SHARE: Final = 0.05
"""The largest share of the steps with a miss under a recommended setting."""
MIN_SAVING: Final = 0.02
"""The smallest share of the full history's cost that a recommended setting saves."""
BUDGETS: Final[tuple[int, ...]] = (6_000, 12_000, 24_000, 48_000, 96_000)
"""The budgets in tokens with which a policy is replayed, besides the budget in use."""
FULL: Final = "full"
PAPER: Final = "contextrender"

Choice = tuple[str, int | str]
"""A policy and a budget."""


@dataclass(slots=True, frozen=True)
class Rating:
    """The cost and the misses of a setting (a policy and a budget), as shares.

    `cost_share` is the setting's cost divided by the cost of full history. It is None if the model
    has no price. `miss_share` is the share of the steps with a miss. A step is a call whose answer
    uses an earlier result.
    """

    policy: str
    budget: int | str
    cost_share: float | None
    miss_share: float

    @property
    def is_default(self) -> bool:
        """True if a live agent gets this setting by default."""
        return self.policy == LIVE_POLICY and self.budget == LIVE_BUDGET

    @property
    def saves_enough(self) -> bool:
        """True if the setting saves at least `MIN_SAVING`."""
        return self.cost_share is not None and self.cost_share <= 1 - MIN_SAVING

    @property
    def is_worth(self) -> bool:
        """True if the setting is worth its misses: it omits something, misses little, and saves."""
        return self.policy != FULL and self.miss_share <= MAX_MISS_SHARE and self.saves_enough


def recommend(ratings: Sequence[Rating]) -> int | None:
    """Return the index of the recommended setting, or None if full history is recommended.

    Recommend the default setting if it is worth its misses (`is_worth`). Otherwise recommend the
    cheapest setting that is worth its misses.
    """
    candidates = [number for number, rating in enumerate(ratings) if rating.is_worth]
    defaults = (number for number in candidates if ratings[number].is_default)
    cheapest = min(candidates, key=lambda number: ratings[number].cost_share or 0.0, default=None)
    return next(defaults, cheapest)


@dataclass(slots=True, frozen=True)
class Replayed:
    """A setting's replay of a session: its cost, the cost of full history, and its misses.

    Costs are in dollars. They are None if the session's model has no price. `steps` counts the
    calls whose answer uses an earlier result. `steps_with_misses` counts those that use a value
    that is not in their prompt.
    """

    policy: str
    budget: int | str
    cost: float | None
    full_cost: float | None
    steps: int
    steps_with_misses: int

    @property
    def name(self) -> str:
        """The setting in words."""
        if self.policy == FULL:
            return "The full history"
        if isinstance(self.budget, int):
            return f"{self.policy} with a budget of {self.budget:,} tokens"
        return f"{self.policy} with the automatic budget"

    @property
    def miss_share(self) -> float:
        """The share of the steps with a miss."""
        return self.steps_with_misses / self.steps if self.steps else 0.0

    @property
    def rating(self) -> Rating:
        """The cost and the misses as shares."""
        cost_share = None
        if self.cost is not None and self.full_cost is not None:
            cost_share = self.cost / self.full_cost if self.full_cost else 1.0
        return Rating(self.policy, self.budget, cost_share, self.miss_share)

    @property
    def outcome(self) -> str:
        """The cost and the share of steps with all values, in words."""
        share = percent(1 - self.miss_share)
        return f"${self.cost or 0:,.2f} and {share} of the steps with all values"


def settings_to_compare(policy: str, budget: int | str, longest: int) -> Iterator[Choice]:
    """Yield the settings to compare: first the setting in use, which is `policy` with `budget`.

    Then yield the default of live agents, `policy` with other budgets, the paper's policy and full
    history, each setting once. The other budgets are below `longest`, the number of tokens of the
    longest history, because a larger budget omits nothing.
    """
    budget_policy = LIVE_POLICY if policy == FULL else policy  # full history has no budget
    candidates: list[Choice] = [
        (policy, budget),
        (LIVE_POLICY, LIVE_BUDGET),
        *((budget_policy, size) for size in BUDGETS if size < longest),
        (PAPER, budget),
        (FULL, budget),
    ]
    yielded_keys: set[Choice] = set()
    for candidate_policy, size in candidates:
        # Full history is the same under every budget.
        key = (candidate_policy, "" if candidate_policy == FULL else size)
        if key not in yielded_keys:
            yielded_keys.add(key)
            yield candidate_policy, size


def sentence_on(options: Sequence[Replayed], best: int | None, current_number: int | None) -> str:
    """Return the recommendation in words.

    `best` is the index of the recommended option, or None if full history is recommended.
    `current_number` is the index of the setting in use, or None if it was not replayed.
    """
    if all(option.cost is None for option in options):
        return "The session's model has no price, so the settings cannot be compared by cost."
    current = None if current_number is None else options[current_number]
    # The recommendation, and whether the setting in use is already the recommended one.
    if best is None:
        recommendation = (
            f"Full history is best for this session: no setting compared saves "
            f"{percent(MIN_SAVING)} of its cost with a miss in at most {percent(MAX_MISS_SHARE)} "
            "of the steps"
        )
        is_current = current is not None and current.policy == FULL
    else:
        option = options[best]
        full = f"${option.full_cost or 0:,.2f} for the full history"
        recommendation = f"{option.name} is recommended: {option.outcome}, instead of {full}"
        is_current = best == current_number
    if is_current:
        return f"{recommendation}. It is the setting in use."
    if current is None:
        return f"{recommendation}."
    return f"{recommendation}. The setting in use: {current.outcome}."
