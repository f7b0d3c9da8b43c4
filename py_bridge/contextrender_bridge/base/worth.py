"""The length of history from which ContextRender saves money, by the provider's prices.

It was measured on public runs (docs/evaluation.md, "From what length it pays"). Each longer run
cost less under the live default than with the full history, although results were fetched again.
Shorter runs save little, because a prompt cache makes their tokens cheap.
"""

from collections.abc import Iterable
from typing import Final

from contextrender_bridge.base.prices import Prices

WITH_CACHE: Final = {"anthropic": 50_000, "openai": 50_000}
"""The length in tokens, by the provider whose prices of cached tokens apply."""
WITHOUT_CACHE: Final = 24_000
"""The length for providers without a discount for cached tokens.

There, each omitted token saves its full price."""
RULE_NAMES: Final = {"anthropic": "Anthropic", "openai": "OpenAI"}


def pricing_rule_of(models: Iterable[str]) -> str:
    """Return "anthropic" if more than half of the models are Anthropic's, otherwise "openai".

    The rule says whose prices of cached tokens apply. Empty names are ignored.
    """
    names = [model for model in models if model]
    anthropic_count = len([name for name in names if is_anthropic_model(name)])
    return "anthropic" if 2 * anthropic_count > len(names) else "openai"


def is_anthropic_model(model: str) -> bool:
    """Return whether Anthropic's prices of cached tokens apply to a model."""
    return "claude" in model


def pays_from(rule: str, model: str = "") -> int:
    """Return the number of tokens of history from which ContextRender approximately saves money.

    `rule` is a value of `pricing_rule_of`, optionally with a suffix, as in "anthropic_end". If the
    price of `model` has no discount for cached tokens, the rule does not matter.
    """
    price = Prices.of().of_model(model) if model else None
    if price is not None and price.cache_read >= price.uncached:
        return WITHOUT_CACHE
    provider = rule.partition("_")[0]
    return WITH_CACHE[provider]
