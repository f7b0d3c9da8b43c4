"""The prices of models under the providers' billing rules."""

from dataclasses import replace
from typing import Final

from contextrender_bridge.base.prices import Price, Prices
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.worth import is_anthropic_model

DEFAULTS: Final = {"openai": "gpt-5.1", "anthropic": "claude-sonnet-4-5"}
"""The model whose price a rule uses for runs of other providers' models."""


def price_under(rule: str, model: str) -> Price:
    """Return a model's price under one of `billing.RULES`.

    It is the model's own price if the rule is that of the model's provider. Otherwise it is the
    price of the rule's default model.
    """
    provider = rule.partition("_")[0]
    prices = Prices.of()
    price = prices.of_model(model)
    if price is not None and provider == ("anthropic" if is_anthropic_model(model) else "openai"):
        return price
    default = prices.of_model(DEFAULTS[provider])
    assert default is not None, "the table that is shipped has it"
    return default


def cost_of(price: Price, prompts: Usage, output: int = 0) -> float:
    """Return the cost of prompts and of `output` tokens of answers, in dollars."""
    return price.of(replace(prompts, output=output))
