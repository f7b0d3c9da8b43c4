"""The prices of models under the providers' billing rules."""

from dataclasses import replace
from typing import Final

from contextrender_bridge.base.prices import Price, Prices
from contextrender_bridge.base.usage import Usage
from contextrender_bridge.base.worth import is_anthropic_model

DEFAULTS: Final = {"openai": "gpt-5.1", "anthropic": "claude-sonnet-4-5"}
"""The model whose price a rule uses for runs of other providers' models."""


def price_under(rule: str, model: str) -> Price:
    """Return the price of a model's tokens under a rule of `billing.RULES`.

    A rule of another provider uses the price of its own default model. So does a rule of the
    model's provider if the model has no price.
    """
    rule_provider = rule.partition("_")[0]  # `anthropic` of `anthropic_end`
    model_provider = "anthropic" if is_anthropic_model(model) else "openai"
    prices = Prices.of()
    price = prices.of_model(model)
    if price is not None and rule_provider == model_provider:
        return price
    default = prices.of_model(DEFAULTS[rule_provider])
    assert default is not None, "the table that is shipped has it"
    return default


def cost_of(price: Price, prompts: Usage, output: int = 0) -> float:
    """Return the dollars for the usage of `prompts` and for `output` tokens of answers."""
    return price.of(replace(prompts, output=output))
