"""The prices of models under the providers' billing rules."""

from dataclasses import replace
from typing import Final

from contextrender_bridge.base.prices import Price, Prices
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.worth import is_anthropic_model

DEFAULTS: Final = {"openai": "gpt-5.1", "anthropic": "claude-sonnet-4-5"}
"""The model whose price a rule uses for runs of other providers' models."""


def price_under(rule: str, model: str) -> Price:
    """Return the price by which a rule of `billing.RULES` bills a model.

    If the rule is of the model's own provider, this is the model's price. Otherwise, and if the
    model has no price, it is the price of the rule's default model.
    """
    rule_provider = rule.partition("_")[0]  # as in `anthropic_end`
    model_provider = "anthropic" if is_anthropic_model(model) else "openai"
    prices = Prices.of()
    price = prices.of_model(model)
    if price is not None and rule_provider == model_provider:
        return price
    default = prices.of_model(DEFAULTS[rule_provider])
    assert default is not None, "the table that is shipped has it"
    return default


def cost_of(price: Price, prompts: Usage, output: int = 0) -> float:
    """Return the cost of prompts and of `output` tokens of answers, in dollars."""
    return price.of(replace(prompts, output=output))
