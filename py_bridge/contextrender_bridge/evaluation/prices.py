"""What providers charge, under the rule that they bill by."""

from dataclasses import replace
from typing import Final

from contextrender_bridge.base.prices import Price, Prices
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.worth import is_anthropics

DEFAULTS: Final = {"openai": "gpt-5.1", "anthropic": "claude-sonnet-4-5"}
"""The models whose prices a rule takes for runs of models that are not of its provider."""


def price_under(rule: str, model: str) -> Price:
    """The price under one of `billing.RULES` for a run of that model: its own, else a default."""
    provider = rule.partition("_")[0]
    prices = Prices.of()
    own = prices.of_model(model)
    if own is not None and provider == ("anthropic" if is_anthropics(model) else "openai"):
        return own
    default = prices.of_model(DEFAULTS[provider])
    assert default is not None, "the table that is shipped has it"
    return default


def cost_of(price: Price, prompts: Usage, output: int = 0) -> float:
    """What calls cost: their prompts, and what was written in answer."""
    return price.of(replace(prompts, output=output))
