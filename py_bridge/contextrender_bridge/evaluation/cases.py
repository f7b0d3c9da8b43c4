"""The cases of a replay. A case is a policy with its parameters and a budget."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from contextrender_bridge.base.errors import CommandError, InvalidRequest
from contextrender_bridge.engine.parameters import AUTO, Parameters, budget_name, check_budget
from contextrender_bridge.engine.policies import policy_named
from contextrender_bridge.evaluation.baselines import BASELINES, new_summaries


@dataclass(frozen=True, slots=True)
class Case:
    """A policy with its parameters and a budget.

    With `agent_defaults`, every prompt shows the newest results, whatever the policy. The clients
    and the proxy request such prompts. `label` is the policy with its parameters as the user wrote
    them, such as `prune:weight_recency=2`. It is empty if the user wrote no parameters.
    """

    policy: str
    budget: int
    parameters: Parameters = field(default_factory=Parameters)
    label: str = ""
    agent_defaults: bool = False

    @property
    def name(self) -> str:
        """The policy with its parameters as the user wrote them, or the policy alone if none."""
        return self.label or self.policy

    @property
    def size(self) -> str:
        """The budget as text, such as `6,000` or `auto`."""
        return f"{self.budget:,}" if self.budget else str(budget_name(self.budget))

    @property
    def changed_parameters(self) -> dict[str, float]:
        """The parameters that differ from the defaults."""
        defaults, parameters = Parameters().to_json(), self.parameters.to_json()
        return {name: value for name, value in parameters.items() if value != defaults[name]}

    def __str__(self) -> str:
        return f"{self.name}@{budget_name(self.budget)}"


def cases_of(policies: str, budgets: str) -> list[Case]:
    """Return a case for every policy with every budget. Both arguments are comma-separated lists.

    A policy may have parameters, as in `prune:weight_recency=2`, and its own budget, as in
    `prune@12000`. The parameter `agent_defaults=1` sets `Case.agent_defaults`. Raise CommandError
    if a policy, a parameter or a budget is invalid, or if no policy or no budget is named.
    """
    sizes = _budgets(budgets)
    specs = _parts(policies)
    if not (specs and sizes):
        raise CommandError("--policy and --budget need at least one value each.")
    cases = [case for spec in specs for case in cases_named(spec, sizes)]
    return list(dict.fromkeys(cases))  # each case once


def cases_named(spec: str, budgets: Sequence[int]) -> list[Case]:
    """Return the cases of one policy, such as `prune:weight_recency=2:agent_defaults=1@6000,auto`.

    The parts after the first colon are parameters, and those after `@` are budgets. If `spec` has
    no budget, `budgets` are used. Raise CommandError if the policy or a parameter is unknown, or if
    the policy needs a model but none is set.
    """
    named_policy, _, own_budgets = spec.partition("@")
    policy, *settings = named_policy.split(":")
    try:
        if policy in BASELINES:
            new_summaries(policy)  # raises without a model
        else:
            policy_named(policy)  # raises for an unknown policy
        values = _values(settings)
        agent_defaults = bool(values.pop("agent_defaults", False))
        parameters = Parameters().updated(values)
    except InvalidRequest as problem:
        raise CommandError(f"{problem.message}.") from None
    label = named_policy if settings else ""  # `Case.label` is only for named parameters
    sizes = _budgets(own_budgets) if own_budgets else budgets
    return [Case(policy, size, parameters, label, agent_defaults) for size in sizes]


def _values(settings: Sequence[str]) -> dict[str, float]:
    """Map the name of each setting to its value. A setting is a text such as `reuse_rate=2`.

    Raise CommandError if a setting is not a name and a number.
    """
    values: dict[str, float] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        try:
            if not equals:
                raise ValueError
            values[name.strip()] = float(value)
        except ValueError:
            raise CommandError(
                f"a policy's parameters must be name=number, not {setting!r:.60}."
            ) from None
    return values


def _budgets(text: str) -> list[int]:
    """Return the budgets of a comma-separated list. Raise CommandError for an invalid one."""
    try:
        return [
            AUTO if budget == budget_name(AUTO) else check_budget(int(budget))
            for budget in _parts(text)
        ]
    except InvalidRequest as problem:
        raise CommandError(f"{problem.message}.") from None
    except ValueError:
        raise CommandError(
            "--budget must be whole numbers of tokens, such as 6000,12000, or auto."
        ) from None


def _parts(text: str) -> list[str]:
    """Return the distinct parts of a comma-separated list."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
