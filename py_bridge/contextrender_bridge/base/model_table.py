"""Prices and windows of models by name, from LiteLLM's table.

A model that is not in the table has the row of the newest model of its family. For example, without
a row of its own, `claude-opus-4-8` has the row of `claude-opus-4-6`. The names of a family differ
only in numbers and dates.
"""

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

_DATE = re.compile(r"[-@]\d{4}-?\d{2}-?\d{2}$|\[\w+\]$")
"""A date at the end of a name, or a variant such as `[1m]`."""
_WORD_AND_NUMBER = re.compile(r"([a-z]*)(\d{1,3})")
_RESELLER = re.compile(r"(?:[a-z]+\.)*(?=[a-z])")
"""The prefix of Bedrock's models, such as `us.anthropic.`. Bedrock sells them at its own prices, so
they are a separate family."""
_STAGES = frozenset({"beta", "exp", "latest", "preview"})

Family = tuple[str, ...]
Version = tuple[int, ...]


@cache
def name_in_table(model: str) -> str | None:
    """Return the name of the table's row for a model, None if there is none.

    Look for a row of the model's own name, also without its provider and its date. If there is
    none, take the row of the newest model of its family.
    """
    table = prices()
    model, _ = split_rates(model)
    without_provider = model.rpartition("/")[2]
    names = (model, without_provider, _DATE.sub("", model), _DATE.sub("", without_provider))
    for name in names:
        if name and name in table:
            return name
    family, version = _family_and_version(without_provider)
    if not (family and version):
        return None
    return _newest_by_family().get(family)


def is_listed(model: str) -> bool:
    """Return whether the table has the model itself, not only another model of its family.

    The names may differ in the provider and the date.
    """
    listed_name = name_in_table(model)
    model, _ = split_rates(model)
    # Use `in`, because the model's name may have a provider before the listed name.
    return listed_name is not None and _DATE.sub("", listed_name) in _DATE.sub("", model)


def add_rates(model: str, prompt: int, usage_fields: Mapping[str, Any] | None = None) -> str:
    """Return the model's name with the rates of a call in parentheses.

    `prompt` is the number of the prompt's tokens. Add the rates that the provider's usage record
    `usage_fields` names to the rates that `model` has already. Replace the rate for the prompt's
    length.
    """
    name, rates = split_rates(model)
    row = model_row(name) or {}
    other_rates = [rate for rate in rates if not is_prompt_rate(rate)]
    new_rates = usage_rates(name, usage_fields or {}, row)
    return join_rates(name, (*other_rates, *new_rates, prompt_rate(row, prompt)))


def model_row(model: str) -> Mapping[str, Any] | None:
    """Return a model's row, with its dollars per token and its window; None if there is none."""
    name = name_in_table(model)
    return prices()[name] if name else None


@cache
def window_of(model: str) -> int | None:
    """Return the largest number of tokens in a model's prompt; None if that is unknown."""
    row = model_row(model) or {}
    return int(row.get("max_input_tokens", 0)) or None


@cache
def _newest_by_family() -> dict[Family, str]:
    """Return a dictionary that maps each family to the name of its newest model.

    Ignore names with a provider (`provider/model`).
    """
    newest: dict[Family, tuple[Version, int, str]] = {}
    for name in prices():
        if "/" in name:
            continue
        family, version = _family_and_version(name)
        # Of several names with the same version, take the shortest: variants have a suffix.
        candidate = (version, -len(name), name)
        if family not in newest or candidate[:2] > newest[family][:2]:
            newest[family] = candidate
    return {family: name for family, (_, _, name) in newest.items()}


def _family_and_version(name: str) -> tuple[Family, Version]:
    """Return the words and the numbers of a model's name, without its dates and stage.

    The first word is the prefix of a reseller's name for the model, empty without one. For example,
    `us.anthropic.claude-opus-4-6` has the words `us.anthropic.`, `claude` and `opus`, and the
    numbers 4 and 6.
    """
    name = _DATE.sub("", _DATE.sub("", name.lower()))  # a name may have two dates
    reseller = match[0] if (match := _RESELLER.match(name)) else ""
    words, numbers = [reseller], []
    for part in re.split(r"[-_.:@ ]", name[len(reseller) :]):
        word = part
        if match := _WORD_AND_NUMBER.fullmatch(part):
            word = match[1]
            numbers.append(int(match[2]))
        if word and word not in _STAGES:
            words.append(word)
    return tuple(words), tuple(numbers)
