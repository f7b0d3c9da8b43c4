"""From what length of history ContextRender pays, by what a model's provider charges.

Measured on 80 public runs (docs/evaluation.md, "From what length it pays"): of the runs that are
longer, each cost less under the live default than with the full history, what is fetched again
included. Shorter ones gain little, because a prompt cache makes their tokens cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from contextrender_bridge.base.prices import Prices

WITH_CACHE: Final = {"anthropic": 50_000, "openai": 50_000}
"""Tokens of history, by the provider whose prices of cached tokens apply."""
WITHOUT_CACHE: Final = 24_000
"""A provider without a discount for cached tokens: each omitted token saves its full price."""
RULE_NAMES: Final = {"anthropic": "Anthropic", "openai": "OpenAI"}


def pricing_rule_of(models: Iterable[str]) -> str:
    """Return by whose prices of cached tokens most of the models are billed.

    The rule is "anthropic" or "openai", also if no model is named.
    """
    names = [model for model in models if model]
    anthropic_count = len([name for name in names if is_anthropic_model(name)])
    return "anthropic" if 2 * anthropic_count > len(names) else "openai"


def is_anthropic_model(model: str) -> bool:
    """Return whether a model is billed by Anthropic's prices of cached tokens."""
    return "claude" in model


def pays_from(rule: str, model: str = "") -> int:
    """Return about how many tokens of history it takes for ContextRender to pay.

    `rule` is that of `pricing_rule_of`, maybe with a suffix, as "anthropic_end" has.
    """
    price = Prices.of().of_model(model) if model else None
    if price is not None and price.cache_read >= price.uncached:
        return WITHOUT_CACHE
    provider = rule.partition("_")[0]
    return WITH_CACHE[provider]
