"""What is replayed under: a policy, a budget and the policy's parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from contextrender_bridge.base.errors import CommandError, InvalidRequest
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.engine.models.summaries import (
    SummariesInMemory,
    SummaryModel,
    summaries_for,
)
from contextrender_bridge.engine.parameters import AUTO, Parameters, budget_name, check_budget
from contextrender_bridge.engine.policies import policy_named


@dataclass(frozen=True, slots=True)
class Case:
    """A policy under a budget.

    `agent_defaults`: as `fit`, proxy and adapters render, with the newest results in view under any
    policy.
    """

    policy: str
    budget: int
    parameters: Parameters = field(default_factory=Parameters)
    label: str = ""
    agent_defaults: bool = False

    @property
    def name(self) -> str:
        """The policy, with the parameters its own row sets."""
        return self.label or self.policy

    @property
    def size(self) -> str:
        """The budget as it is told."""
        return size_of(self.budget)

    @property
    def changed(self) -> dict[str, float]:
        """The parameters that differ from the defaults."""
        usual = Parameters().to_json()
        return {
            name: value for name, value in self.parameters.to_json().items() if value != usual[name]
        }

    def __str__(self) -> str:
        return f"{self.name}@{budget_name(self.budget)}"


def size_of(budget: int) -> str:
    """A budget as it is told."""
    return f"{budget:,}" if budget else str(budget_name(budget))


def cases_of(policies: str, budgets: str) -> list[Case]:
    """Every policy under every budget.

    A policy is a name, or a name with parameters of its own, as in `prune:weight_recency=2`, or
    with a budget of its own, as in `prune@12000`. `agent_defaults=1` among parameters makes it
    `Case.agent_defaults`. Raises CommandError for one there is not.
    """
    sizes = _budgets(budgets)
    named = _parts(policies)
    if not (named and sizes):
        raise CommandError("name at least one policy and one budget.")
    cases = [case for spec in named for case in cases_named(spec, sizes)]
    return list(dict.fromkeys(cases))


def cases_named(spec: str, budgets: Sequence[int]) -> list[Case]:
    """The cases of one policy: under its own budget if it names one, else under all."""
    label, _, own_budget = spec.partition("@")
    policy, *own = label.split(":")
    try:
        needs_model = policy_named(policy).needs_model
        values = dict(_values(own))
        agent_defaults = bool(values.pop("agent_defaults", False))
        parameters = Parameters().updated(values)
        if needs_model:
            summaries_for(policy, SummariesInMemory(), summary_model())  # refuses without a model
    except InvalidRequest as problem:
        raise CommandError(f"{problem.message}.") from None
    sizes = _budgets(own_budget) if own_budget else budgets
    return [Case(policy, size, parameters, label if own else "", agent_defaults) for size in sizes]


def summary_model() -> SummaryModel:
    """The model that is set to write summaries, and the guideline it is given."""
    settings = current_settings()
    return SummaryModel(settings.model, settings.acon_guideline)


def _values(settings: Sequence[str]) -> Mapping[str, float]:
    values: dict[str, float] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        try:
            if not equals:
                raise ValueError
            values[name.strip()] = float(value)
        except ValueError:
            raise CommandError(
                f"parameters are set as name=number, which {setting!r:.60} is not."
            ) from None
    return values


def _budgets(text: str) -> list[int]:
    try:
        return [
            AUTO if budget == budget_name(AUTO) else check_budget(int(budget))
            for budget in _parts(text)
        ]
    except InvalidRequest as problem:
        raise CommandError(f"{problem.message}.") from None
    except ValueError:
        raise CommandError(
            "--budget takes whole numbers of tokens, as in 6000,12000, or auto."
        ) from None


def _parts(text: str) -> list[str]:
    """The parts of a comma-separated list, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
