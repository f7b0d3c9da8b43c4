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
WITHOUT_CACHE: Final = 24_000
"""A provider without a discount for cached tokens: whatever is left out is saved."""
RULE_NAMES: Final = {"anthropic": "Anthropic", "openai": "OpenAI"}


def rule_of(models: Iterable[str]) -> str:
    """Return the rule that most of these models' calls are billed by, of those that are named."""
    is_anthropic = [is_anthropics(model) for model in models if model]
    return "anthropic" if 2 * sum(is_anthropic) > len(is_anthropic) else "openai"


def is_anthropics(model: str) -> bool:
    """Return whether Anthropic's rule applies to a model."""
    return "claude" in model


def pays_from(rule: str, model: str = "") -> int:
    """Return the tokens of history from which ContextRender pays, about."""
    price = Prices.of().of_model(model) if model else None
    if price is not None and price.cache_read >= price.uncached:
        return WITHOUT_CACHE
    return WITH_CACHE[rule.partition("_")[0]]
