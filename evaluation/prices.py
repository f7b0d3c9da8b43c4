"""What providers charge, from LiteLLM's table, or as set by `--price`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from contextrender_bridge.errors import CommandError
from contextrender_bridge.shipped import prices

from evaluation.caches import Billed

DEFAULTS: Final = {"openai": "gpt-5.1", "anthropic": "claude-sonnet-4-5"}
"""The models whose prices a rule takes for runs of models that are not of its provider."""

_NAMES: Final = ("input", "cached", "written", "output")
WRITE_FACTOR: Final = 1.25


@dataclass(slots=True, frozen=True)
class Price:
    """Dollars for a million tokens: of a prompt, read from the cache, written into it, output."""

    input: float
    cached: float
    written: float
    output: float

    def prompts(self, billed: Billed) -> float:
        """Dollars for prompts."""
        spent = self.input * billed.plain + self.cached * billed.read
        return (spent + self.written * billed.written) / 1e6

    def calls(self, billed: Billed, output: int) -> float:
        """Dollars for prompts and what was written in answer."""
        return self.prompts(billed) + self.output * output / 1e6


@dataclass(slots=True, frozen=True)
class Prices:
    """A price for each provider's rule: the one set, else the run's own model's, else a default."""

    given: Mapping[str, Price] = field(default_factory=dict)

    def of(self, rule: str, model: str) -> Price:
        """The price under one of `caches.RULES` for a run of that model."""
        provider = rule.partition("_")[0]
        if provider in self.given:
            return self.given[provider]
        if _provider(model) == provider:
            return price_of(model)
        return price_of(DEFAULTS[provider])

    @classmethod
    def parsed(cls, settings: Sequence[str]) -> "Prices":
        """From values of `--price`: MODEL, or PROVIDER:input=2,cached=0.5,output=8.

        Raises CommandError for what is neither.
        """
        return cls(dict(map(_parsed, settings)))


def price_of(model: str) -> Price:
    """A model's price. Raises CommandError for one that LiteLLM's table has no price of."""
    row = _row(model)
    if row is None:
        raise CommandError(
            f"LiteLLM's table has no price of {model!r:.60}; set one as in "
            "--price openai:input=2,cached=0.5,output=8 (dollars for a million tokens)."
        )
    paid = float(row["input_cost_per_token"])
    return Price(
        1e6 * paid,
        1e6 * float(row.get("cache_read_input_token_cost") or paid),
        1e6 * float(row.get("cache_creation_input_token_cost") or paid),
        1e6 * float(row.get("output_cost_per_token") or 0),
    )


def rule_of(models: Iterable[str]) -> str:
    """The rule that these models' calls are billed by: Anthropic's if all are of its models."""
    return "anthropic" if {_provider(model) for model in models} == {"anthropic"} else "openai"


def _parsed(setting: str) -> tuple[str, Price]:
    provider, colon, numbers = setting.partition(":")
    if not (colon and "=" in numbers):
        return _provider(setting) or "openai", price_of(setting)
    if provider not in DEFAULTS:
        raise CommandError(f"--price knows the rules {', '.join(DEFAULTS)}, not {provider!r:.40}.")
    try:
        values = {name: float(text) for name, text in (p.split("=") for p in numbers.split(","))}
    except ValueError:
        values = {}
    if not {"input", "output"} <= values.keys() <= set(_NAMES) or min(values.values()) < 0:
        raise CommandError(
            f"--price takes {', '.join(_NAMES)} as name=dollars for a million tokens, input and "
            f"output at least, which {setting!r:.60} is not."
        )
    paid = values["input"]
    written = paid * WRITE_FACTOR if provider == "anthropic" else paid
    defaults = {"cached": paid / 10, "written": written}
    return provider, Price(**{**defaults, **values})


def _provider(model: str) -> str:
    """Whose rule a model's calls are billed by; empty where the table does not know it."""
    row = _row(model)
    if row is None:
        return ""
    return "anthropic" if "claude" in model else "openai"


def _row(model: str) -> Mapping[str, Any] | None:
    for name in (model, model.rpartition("/")[2]):
        row = prices().get(name)
        if name and row and row.get("input_cost_per_token"):
            found: Mapping[str, Any] = row
            return found
    return None
