"""What is known of models by name: prices and windows, from LiteLLM's table.

A model that the table does not have stands as its family's newest known one: `claude-opus-4-8` as
`claude-opus-4-6`. A family are the names that differ in numbers and dates alone.
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
    told_rates,
)
from contextrender_bridge.base.shipped import prices

_DATED = re.compile(r"[-@]\d{4}-?\d{2}-?\d{2}$|\[\w+\]$")
_NUMBERED = re.compile(r"([a-z]*)(\d{1,3})")
_MAKER = re.compile(r"(?:[a-z]+\.)*(?=[a-z])")
"""Before a name that Bedrock resells, at prices of its own: such are no family of their maker's."""
_STAGES = frozenset({"beta", "exp", "latest", "preview"})

Family = tuple[str, ...]
Version = tuple[int, ...]


@cache
def known_as(model: str) -> str | None:
    """The model's name in the table, else that of its family's newest; None if it has neither."""
    table = prices()
    model, _ = split_rates(model)
    bare = model.rpartition("/")[2]
    for name in (model, bare, _DATED.sub("", model), _DATED.sub("", bare)):
        if name and name in table:
            return name
    family, version = _parsed(bare)
    return _newest().get(family) if family and version else None


def is_listed(model: str) -> bool:
    """Whether the table has the model itself, also under a provider's or dated name."""
    name, (model, _) = known_as(model), split_rates(model)
    return name is not None and _DATED.sub("", name) in _DATED.sub("", model)


def rated(model: str, prompt: int, told: Mapping[str, Any] | None = None) -> str:
    """Return the model's name with the rates of a call whose prompt has so many tokens.

    `told` is the call's usage record. Without it, the rates that the name has remain.
    """
    name, rates = split_rates(model)
    row = model_row(name) or {}
    kept = [rate for rate in rates if not is_prompt_rate(rate)]
    return join_rates(name, (*kept, *told_rates(told or {}, row), prompt_rate(row, prompt)))


def model_row(model: str) -> Mapping[str, Any] | None:
    """Dollars for a token, and the window, of the name that the model is `known_as`."""
    name = known_as(model)
    return prices()[name] if name else None


@cache
def window_of(model: str) -> int | None:
    """The most tokens a model takes; None where that is not known."""
    row = model_row(model)
    return int(row.get("max_input_tokens", 0)) or None if row else None


@cache
def _newest() -> dict[Family, str]:
    """Each family's newest, of the names without a provider: they are the makers' own."""
    rows = [(*_parsed(name), name) for name in prices() if "/" not in name]
    rows.sort(key=lambda row: (row[1], -len(row[2])), reverse=True)
    found: dict[Family, str] = {}
    for family, _, name in rows:
        found.setdefault(family, name)
    return found


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
