"""Computes what providers bill for a run's prompts, with OpenAI's and Anthropic's prompt caches.

The rules, with their sources, are in docs/evaluation.md, Provider's bill. Long because it has the
units of prompts, the caches of both providers, and the prices under their rules.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

from contextrender_bridge.base.prices import Price, Prices
from contextrender_bridge.base.usage import LIFETIME, NOTHING_USED, Usage
from contextrender_bridge.base.worth import is_anthropic_model
from contextrender_bridge.engine.text.tokens import TokenCounter, call_parts, json_text

MIN_CACHED_TOKENS: Final = 1_024
"""The smallest beginning of a prompt, in tokens, that a provider caches."""
OPENAI_BLOCK: Final = 128
"""OpenAI caches beginnings whose tokens are a multiple of this."""
ANTHROPIC_LOOKBACK: Final = 20
"""Anthropic searches this many content blocks before a breakpoint for a cached beginning."""
_NO_UNIT: Final = -1
"""Stands for the index of a unit that does not exist."""
RULES: Final = ("openai", "anthropic", "anthropic_end")
"""The billing rules: OpenAI's, Anthropic's with breakpoints at the quarters and at the end, and
Anthropic's with one breakpoint at the end."""
DEFAULT_MODELS: Final = {"openai": "gpt-5.1", "anthropic": "claude-sonnet-4-5"}
"""The model whose price a rule uses for runs of other providers' models."""


class Unit(NamedTuple):
    """A part of a prompt that is cached as a whole: a message's text, its calls, or tool schemas.

    `identity` is hashable, and equal for units with equal contents. `blocks` is the number of
    content blocks in the unit.
    """

    identity: object
    tokens: int
    blocks: int = 1


class Prompts:
    """Splits one run's prompts into units and counts their tokens, those of a text only once."""

    def __init__(self, counter: TokenCounter, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        """Count with `counter`. The schemas of `tools` precede every billed prompt."""
        self._counter = counter
        self._text_tokens = cache(lambda text: counter.message({"content": text}))
        self._call_tokens = cache(
            lambda name, arguments: counter.call(
                {"function": {"name": name, "arguments": arguments}}
            )
        )
        schemas = json_text(list(tools))
        self._tools = [Unit(schemas, counter.text(schemas))] if tools else []

    def units_of(self, messages: Sequence[Mapping[str, Any]]) -> list[Unit]:
        """Return the units of a prompt with these messages."""
        return [unit for message in messages for unit in self._units(message)]

    def compare(
        self, previous: Sequence[Unit], messages: Sequence[Mapping[str, Any]]
    ) -> tuple[list[Unit], Usage]:
        """Return the units of a prompt with these messages, and its usage.

        `previous` has the units of the previous prompt. The units that both prompts begin with
        count as cached.
        """
        units = self.units_of(messages)
        cached = 0
        for previous_unit, unit in zip(previous, units, strict=False):
            if previous_unit.identity != unit.identity:
                break
            cached += unit.tokens
        return units, Usage.of_prompt(sum(unit.tokens for unit in units), cached)

    def with_tools(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Return the units that a provider receives: the tools' schemas, then the prompt."""
        return [*self._tools, *units]

    def tokens(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Return the tokens of messages, as the engine counts them."""
        return sum(unit.tokens for unit in self.units_of(messages))

    def _units(self, message: Mapping[str, Any]) -> list[Unit]:
        """Return a message's units: its text and its calls. An answer's empty text has no unit."""
        role, content = message.get("role"), message.get("content")
        calls = message.get("tool_calls")
        units: list[Unit] = []
        if isinstance(content, str) and content:
            tokens = self._text_tokens(content)
        else:  # an empty text's tokens depend on the role
            tokens = self._counter.message({"role": role, "content": content})
        if tokens or role != "assistant":
            text = content if isinstance(content, str) else json_text(content)
            units.append(Unit((role, text, message.get("tool_call_id")), tokens))
        if calls:
            identity = tuple((call.get("id"), *call_parts(call)) for call in calls)
            call_tokens = sum(self._call_tokens(name, text) for _, name, text in identity)
            units.append(Unit(identity, call_tokens, blocks=len(calls)))
        return units


class OpenAICache:
    """OpenAI's cache: it keeps every prompt and reads the longest beginning that it has."""

    def __init__(self) -> None:
        # The time of the last use of each cached beginning, by its hash.
        self._last_uses: dict[int, float] = {}

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Usage:
        """Return the usage of the next prompt. Its longest cached beginning is read.

        Only whole blocks of `OPENAI_BLOCK` tokens are read.
        """
        prompt_tokens = cached_tokens = 0
        is_cached = True  # whether the prompt is cached from its start to the current unit
        for prefix_hash, unit in zip(_prefix_hashes(units), units, strict=True):
            prompt_tokens += unit.tokens
            # This beginning is cached if it is stored and all shorter beginnings are cached.
            is_cached = is_cached and _is_alive(self._last_uses.get(prefix_hash), time)
            if is_cached:
                cached_tokens = prompt_tokens
            self._last_uses[prefix_hash] = time  # the call stores or refreshes it
        cache_read = 0
        if cached_tokens >= MIN_CACHED_TOKENS:
            cache_read = cached_tokens - cached_tokens % OPENAI_BLOCK
        return Usage(uncached=prompt_tokens - cache_read, cache_read=cache_read)


class AnthropicCache:
    """Anthropic's cache: it stores a prompt's beginning up to each breakpoint.

    One breakpoint is at the end of every prompt. With `has_quarter_breakpoints`, three more are
    after a quarter, a half and three quarters of the tokens. They stay at the same units as long as
    each prompt continues the previous one, because a moved breakpoint would be written again.
    """

    def __init__(self, *, has_quarter_breakpoints: bool) -> None:
        """Start an empty cache."""
        self._has_quarter_breakpoints = has_quarter_breakpoints
        # The time of the last use of each cached beginning, by its hash.
        self._last_uses: dict[int, float] = {}
        self._last_prompt_hash = 0
        # The indexes of the units after which the quarters' breakpoints are.
        self._quarter_units: Sequence[int] = ()

    def bill(self, units: Sequence[Unit], time: float = 0.0) -> Usage:
        """Return the usage of a prompt, and store its beginnings in the cache.

        The prompt's longest cached beginning is read from the cache, and the rest is written.
        """
        if not units:
            return Usage()
        # For each unit: the hash, the tokens and the blocks of the prompt up to the unit's end.
        hashes = _prefix_hashes(units)
        tokens = list(accumulate(unit.tokens for unit in units))
        blocks = list(accumulate(unit.blocks for unit in units))
        # Of the cached beginnings that the breakpoints find, the longest is read.
        breakpoints = self._breakpoints(hashes, tokens)
        last_cached = max(self._last_cached_unit(u, hashes, blocks, time) for u in breakpoints)

        # Store or refresh the beginnings that end at a breakpoint, and the one that is read.
        for unit in breakpoints:
            if tokens[unit] >= MIN_CACHED_TOKENS:  # the provider caches nothing shorter
                self._last_uses[hashes[unit]] = time
        # The tokens after the beginning that is read are written, unless the prompt is too short.
        prompt_tokens, cache_read = tokens[-1], 0
        if last_cached != _NO_UNIT:
            self._last_uses[hashes[last_cached]] = time
            cache_read = tokens[last_cached]
        cache_write = prompt_tokens - cache_read if prompt_tokens >= MIN_CACHED_TOKENS else 0
        uncached = prompt_tokens - cache_read - cache_write
        return Usage(uncached=uncached, cache_read=cache_read, cache_write=cache_write)

    def _breakpoints(self, hashes: Sequence[int], tokens: Sequence[int]) -> list[int]:
        """Return the indexes of the units after which this prompt has a breakpoint, in order.

        Move the quarters' breakpoints if the prompt does not continue the last one. The lists have
        for each unit the hash and the tokens of the prompt from its start to this unit.
        """
        continues_last_prompt = self._last_prompt_hash in hashes
        if self._has_quarter_breakpoints and not continues_last_prompt:
            quarter_ends = [tokens[-1] * quarter / 4 for quarter in (1, 2, 3)]
            # The last unit before the end of each quarter; `_NO_UNIT` if the first ends after it.
            last_units = {bisect_right(tokens, end) - 1 for end in quarter_ends}
            self._quarter_units = sorted(last_units - {_NO_UNIT})
        self._last_prompt_hash = hashes[-1]
        return sorted({*self._quarter_units, len(hashes) - 1})

    def _last_cached_unit(
        self, breakpoint_unit: int, hashes: Sequence[int], blocks: Sequence[int], time: float
    ) -> int:
        """Return the end of the longest cached beginning that a breakpoint finds: a unit's index.

        Return `_NO_UNIT` if there is none. The provider searches at most `ANTHROPIC_LOOKBACK`
        content blocks backwards from the breakpoint. The lists have for each unit the hash and the
        blocks of the prompt from its start to this unit.
        """
        for unit in range(breakpoint_unit, -1, -1):
            if blocks[breakpoint_unit] - blocks[unit] > ANTHROPIC_LOOKBACK:
                break
            if _is_alive(self._last_uses.get(hashes[unit]), time):
                return unit
        return _NO_UNIT


def empty_bills() -> dict[str, Usage]:
    """Return a usage of zero for every rule."""
    return dict.fromkeys(RULES, NOTHING_USED)


def add_bills(bills: Mapping[str, Usage], other: Mapping[str, Usage]) -> dict[str, Usage]:
    """Return the sum of both usages for every rule."""
    return {rule: bills[rule].plus(other[rule]) for rule in RULES}


class Biller:
    """Adds up the usage of a run's prompts by every billing rule."""

    def __init__(self, prompts: Prompts) -> None:
        """Bill with new caches. `prompts` has the tool schemas that precede every prompt."""
        self._prompts = prompts
        self._caches: dict[str, OpenAICache | AnthropicCache] = {
            "openai": OpenAICache(),
            "anthropic": AnthropicCache(has_quarter_breakpoints=True),
            "anthropic_end": AnthropicCache(has_quarter_breakpoints=False),
        }
        self.bills = empty_bills()

    def add(self, units: Sequence[Unit], time: float) -> None:
        """Bill the next prompt, sent at `time` seconds."""
        prompt = self._prompts.with_tools(units)
        self.bills = {
            rule: self.bills[rule].plus(cache.bill(prompt, time))
            for rule, cache in self._caches.items()
        }


def _prefix_hashes(units: Sequence[Unit]) -> list[int]:
    """Return for each unit a hash of the prompt from its start to the end of this unit."""
    hashes: list[int] = []
    last_hash = 0
    for unit in units:
        last_hash = hash((last_hash, unit.identity))
        hashes.append(last_hash)
    return hashes


def _is_alive(last_use: float | None, time: float) -> bool:
    """Return whether a cached beginning still exists at `time` seconds."""
    return last_use is not None and time - last_use <= LIFETIME


def price_under(rule: str, model: str) -> Price:
    """Return the price of a model's tokens under a rule of `RULES`.

    A rule of another provider uses the price of its own default model. So does a rule of the
    model's provider if the model has no price.
    """
    rule_provider = rule.partition("_")[0]  # `anthropic` of `anthropic_end`
    model_provider = "anthropic" if is_anthropic_model(model) else "openai"
    prices = Prices.of()
    price = prices.of_model(model)
    if price is not None and rule_provider == model_provider:
        return price
    default = prices.of_model(DEFAULT_MODELS[rule_provider])
    assert default is not None, "the table that is shipped has it"
    return default


def cost_of(price: Price, prompts: Usage, output: int = 0) -> float:
    """Return the dollars for the usage of `prompts` and for `output` tokens of answers."""
    return price.of(replace(prompts, output=output))
