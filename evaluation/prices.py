"""What providers charge, under the rule that they bill by; `--price` sets it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.prices import Price, Prices, price_from
from contextrender_bridge.base.setting_kinds import Unfit, as_prices
from contextrender_bridge.base.usage import Usage

DEFAULTS: Final = {"openai": "gpt-5.1", "anthropic": "claude-sonnet-4-5"}
"""The models whose prices a rule takes for runs of models that are not of its provider."""

WRITE_FACTOR: Final = 1.25


@dataclass(slots=True, frozen=True)
class RulePrices:
    """A price for each provider's rule: the one set, else the run's own model's, else a default."""

    given: Mapping[str, Price] = field(default_factory=dict)

    def of(self, rule: str, model: str) -> Price:
        """The price under one of `caches.RULES` for a run of that model."""
        provider = rule.partition("_")[0]
        if provider in self.given:
            return self.given[provider]
        if _provider(model) == provider:
            return price_of(model)
        return price_of(DEFAULTS[provider])

    @classmethod
    def parsed(cls, settings: Sequence[str]) -> "RulePrices":
        """From values of `--price`: MODEL, or PROVIDER:input=2,cached=0.5,output=8.

        Raises CommandError for what is neither.
        """
        return cls(dict(map(_parsed, settings)))


def cost_of(price: Price, prompts: Usage, output: int = 0) -> float:
    """What calls cost: their prompts, and what was written in answer."""
    return price.of(replace(prompts, output=output))


def price_of(model: str) -> Price:
    """A model's price, of one's own or of the table. Raises CommandError where there is none."""
    price = Prices.of().of_model(model)
    if price is None:
        raise CommandError(
            f"no price is known of {model!r:.60}: set one with `contextrender price`, or as in "
            "--price openai:input=2,cached=0.5,output=8 (dollars for a million tokens)."
        )
    return price


def rule_of(models: Iterable[str]) -> str:
    """The rule that most of these models' calls are billed by, of those that are named."""
    named = [_is_anthropics(model) for model in models if model]
    return "anthropic" if 2 * sum(named) > len(named) else "openai"


def _parsed(setting: str) -> tuple[str, Price]:
    name, _, numbers = setting.partition(":")
    if "=" not in numbers:
        return _provider(setting) or "openai", price_of(setting)
    if name not in DEFAULTS:
        raise CommandError(f"--price knows the rules {', '.join(DEFAULTS)}, not {name!r:.40}.")
    try:
        values = as_prices(setting)[name]
    except Unfit as wrong:
        raise CommandError(f"--price {wrong}.") from None
    factor = WRITE_FACTOR if name == "anthropic" else 1
    return name, price_from({"written": factor * values["input"], **values})


def _provider(model: str) -> str:
    """Whose rule a model's calls are billed by; empty where no price is known of it."""
    if Prices.of().of_model(model) is None:
        return ""
    return "anthropic" if _is_anthropics(model) else "openai"


def _is_anthropics(model: str) -> bool:
    return "claude" in model
