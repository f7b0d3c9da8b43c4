"""The score of compactions: how many used values the summaries and the rendered prompts had."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

ALL_STEPS = "all"
"""The name of the count of all measured steps."""
SUMMARY = "summary"
"""The name of the count of steps whose values the agent's summary had."""
WITH_REREADS = "again"
"""The name of the count of steps whose values were in the summary or in the messages after it."""


@dataclass(slots=True)
class CompactionScore:
    """Sums over `measured` compactions, which may be a sample of `count` compactions.

    The keys of `steps` and `values` are `ALL_STEPS`, `SUMMARY`, `WITH_REREADS` and the names of
    `budgets`. For a budget, only what its prompts show from before the compaction counts.
    """

    count: int = 0
    measured: int = 0
    budgets: Sequence[str] = ()
    steps: Counter[str] = field(default_factory=Counter)
    """The number of steps that had every value they used from before the compaction."""
    values: Counter[str] = field(default_factory=Counter)
    """The number of values from before the compaction that the steps had."""
    read_calls: int = 0
    """The number of results that the agent read again for such values."""
    read_tokens: Counter[str] = field(default_factory=Counter)
    """The tokens of the results that the agent read again, by model."""
    avoided: Counter[str] = field(default_factory=Counter)
    """The number of compactions that an agent with a budget need not make, by budget.

    After such a compaction, all prompts up to the last measured step are shorter than the messages
    that the agent replaced.
    """

    def add_step(self, name: str, values: frozenset[str], missing_values: frozenset[str]) -> None:
        """Count a step that needed `values`, of which it did not have the `missing_values`.

        `name` is the key of `steps` and `values` under which it counts.
        """
        has_all_values = not missing_values
        self.steps[name] += has_all_values
        self.values[name] += len(values) - len(missing_values)

    def add(self, other: "CompactionScore") -> None:
        """Add the sums of other compactions."""
        self.steps.update(other.steps)
        self.values.update(other.values)
        self.read_calls += other.read_calls
        self.read_tokens.update(other.read_tokens)
        self.avoided.update(other.avoided)

    def share(self, name: str) -> float | None:
        """Return the share of the measured steps that had all their values; None without steps.

        `name` is a key of `steps`, such as a budget's.
        """
        return self.steps[name] / self.steps[ALL_STEPS] if self.steps[ALL_STEPS] else None

    def share_of_values(self, name: str) -> float | None:
        """Return the share of the needed values that the steps had; None without values.

        `name` is a key of `values`, such as a budget's.
        """
        return self.values[name] / self.values[ALL_STEPS] if self.values[ALL_STEPS] else None

    @property
    def rows(self) -> dict[str, str]:
        """The rows of tables: each label, mapped to a key of `steps` and `values`."""
        budgets = {
            f"shown {budget_phrase(name)}, nothing read again": name for name in self.budgets
        }
        return {
            "in the agent's summary": SUMMARY,
            "and what it read again": WITH_REREADS,
            **budgets,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the score as plain values. Shares are in [0, 1].

        A measured step used values that occur only in results from before the compaction.

        - `summary_had_all`, `read_again` and `shown` are the shares of the measured steps that had
          all of these values. Under `values` are the shares of the values that the steps had.
        - `count` is the number of compactions. `avoided` has, by budget, the number of compactions
          that an agent with this budget need not make.
        """
        return {
            "count": self.count,
            "measured": self.measured,
            "steps": self.steps[ALL_STEPS],
            "summary_had_all": self.share(SUMMARY),
            "read_again": self.share(WITH_REREADS),
            "shown": {name: self.share(name) for name in self.budgets},
            "values": {
                "summary": self.share_of_values(SUMMARY),
                "read_again": self.share_of_values(WITH_REREADS),
                "shown": {name: self.share_of_values(name) for name in self.budgets},
            },
            "read_again_calls": self.read_calls,
            "read_again_tokens": sum(self.read_tokens.values()),
            "avoided": {name: self.avoided[name] for name in self.budgets},
        }


def budget_phrase(name: str) -> str:
    """Return a budget in words. `name` is a number of tokens, or the automatic budget's name."""
    return f"within {int(name):,} tokens" if name.isdecimal() else "within an automatic budget"
