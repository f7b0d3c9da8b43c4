"""Prices and windows of models by name, from LiteLLM's table.

A model that is not in the table has the row of its family's newest model there: `claude-opus-4-8`
that of `claude-opus-4-6`. The names of a family differ only in numbers and dates.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from contextrender_bridge.base.rates import (
    is_prompt_rate,
    join_rates,
    prompt_rate,
    split_rates,
    usage_rates,
)
from contextrender_bridge.base.shipped import prices

_DATED = re.compile(r"[-@]\d{4}-?\d{2}-?\d{2}$|\[\w+\]$")
_NUMBERED = re.compile(r"([a-z]*)(\d{1,3})")
_MAKER = re.compile(r"(?:[a-z]+\.)*(?=[a-z])")
"""The prefix of names that Bedrock resells at its own prices: they are not in their maker's family.
"""
_STAGES = frozenset({"beta", "exp", "latest", "preview"})

Family = tuple[str, ...]
Version = tuple[int, ...]


@cache
def known_as(model: str) -> str | None:
    """Return the model's name in the table, else that of its family's newest, else None."""
    table = prices()
    model, _ = split_rates(model)
    bare = model.rpartition("/")[2]
    for name in (model, bare, _DATED.sub("", model), _DATED.sub("", bare)):
        if name and name in table:
            return name
    family, version = _parsed(bare)
    return _newest().get(family) if family and version else None


def is_listed(model: str) -> bool:
    """Return whether the table has the model itself, maybe with a provider or date in its name."""
    name, (model, _) = known_as(model), split_rates(model)
    return name is not None and _DATED.sub("", name) in _DATED.sub("", model)


def rated(model: str, prompt: int, usage_fields: Mapping[str, Any] | None = None) -> str:
    """Return the model's name with the rates of a call whose prompt has `prompt` tokens.

    `usage_fields` is the call's usage record. Without it, the rates in the name remain.
    """
    name, rates = split_rates(model)
    row = model_row(name) or {}
    kept_rates = [rate for rate in rates if not is_prompt_rate(rate)]
    return join_rates(
        name, (*kept_rates, *usage_rates(usage_fields or {}, row), prompt_rate(row, prompt))
    )


def model_row(model: str) -> Mapping[str, Any] | None:
    """Return the table's row of a model: dollars per token, and the window."""
    name = known_as(model)
    return prices()[name] if name else None


@cache
def window_of(model: str) -> int | None:
    """Return the most tokens that a model accepts; None if that is unknown."""
    row = model_row(model)
    return int(row.get("max_input_tokens", 0)) or None if row else None


@cache
def _newest() -> dict[Family, str]:
    """Return each family's newest model, of the names without a provider (the makers' own)."""
    rows = [(*_parsed(name), name) for name in prices() if "/" not in name]
    rows.sort(key=lambda row: (row[1], -len(row[2])), reverse=True)
    newest_names: dict[Family, str] = {}
    for family, _, name in rows:
        newest_names.setdefault(family, name)
    return newest_names


def _parsed(name: str) -> tuple[Family, Version]:
    name = _DATED.sub("", _DATED.sub("", name.lower()))
    maker = match[0] if (match := _MAKER.match(name)) else ""
    words, numbers = [maker], []
    for part in re.split(r"[-_.:@ ]", name[len(maker) :]):
        if numbered := _NUMBERED.fullmatch(part):
            numbers.append(int(numbered[2]))
            part = numbered[1]
        if part and part not in _STAGES:
            words.append(part)
    return tuple(words), tuple(numbers)
