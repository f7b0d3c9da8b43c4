"""Providers' prompt caches, with usage computed by hand."""

from typing import Any

from contextrender_bridge.base.usage import Usage
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.billing import AnthropicCache, OpenAICache, Prompts, Unit


def units(*sizes: tuple[str, int]) -> list[Unit]:
    return [Unit(name, tokens) for name, tokens in sizes]


A, B, C, D = ("a", 1_000), ("b", 500), ("c", 300), ("d", 2_000)


def test_openai_reads_full_blocks_of_cached_prefix() -> None:
    cache = OpenAICache()
    assert cache.bill(units(A, B)) == Usage(uncached=1_500)
    # 1,500 tokens repeat, which are 11 full blocks of 128: 1,408.
    assert cache.bill(units(A, B, C)) == Usage(uncached=392, cache_read=1_408)


def test_openai_reads_nothing_below_1024_tokens() -> None:
    cache = OpenAICache()
    cache.bill(units(A, B))
    assert cache.bill(units(A, C)) == Usage(uncached=1_300)
    cache.bill(units(("x", 1_024)))
    assert cache.bill(units(("x", 1_024), C)).cache_read == 1_024
    cache.bill(units(("y", 1_023)))
    assert cache.bill(units(("y", 1_023), C)).cache_read == 0


def test_cache_expires_after_five_minutes() -> None:
    for cache in (OpenAICache(), AnthropicCache(has_quarter_breakpoints=False)):
        cache.bill(units(D), 0)
        assert cache.bill(units(D), 300).cache_read > 0  # and used once more
        assert cache.bill(units(D), 600).cache_read > 0
        assert cache.bill(units(D), 901).cache_read == 0


def test_anthropic_writes_and_reads_up_to_breakpoint() -> None:
    cache = AnthropicCache(has_quarter_breakpoints=False)
    assert cache.bill(units(A, B)) == Usage(cache_write=1_500)
    assert cache.bill(units(A, B, C)) == Usage(cache_read=1_500, cache_write=300)


def test_anthropic_caches_nothing_below_1024_tokens() -> None:
    cache = AnthropicCache(has_quarter_breakpoints=False)
    assert cache.bill(units(A)) == Usage(uncached=1_000)
    assert cache.bill(units(A, C)) == Usage(cache_write=1_300)


def test_anthropic_reads_up_to_last_valid_quarter_breakpoint() -> None:
    cache = AnthropicCache(has_quarter_breakpoints=True)
    four = [(name, 1_500) for name in "wxyz"]
    assert cache.bill(units(*four)) == Usage(cache_write=6_000)
    # The quarters end at w, x and y. Without y, the prefix up to x is the longest that is cached.
    assert cache.bill(units(*four[:2], D)) == Usage(cache_read=3_000, cache_write=2_000)


def test_anthropic_looks_back_at_most_20_blocks() -> None:
    for blocks, read in ((20, 2_000), (21, 0)):
        cache = AnthropicCache(has_quarter_breakpoints=False)
        cache.bill(units(D))
        calls = Unit("calls", 500, blocks)
        assert cache.bill([*units(D), calls]) == Usage(cache_read=read, cache_write=2_500 - read)


def test_tool_schemas_precede_every_prompt() -> None:
    counter = counter_for(None)
    tool: dict[str, Any] = {"type": "function", "function": {"name": "look", "parameters": {}}}
    message = {"role": "user", "content": "Find it."}
    prompts = Prompts(counter, [tool])
    units_of_prompt, usage = prompts.compare([], [message])
    schemas, text = prompts.with_tools(units_of_prompt)
    assert usage.prompt == text.tokens == counter.message(message)
    assert schemas.tokens == counter.text(
        '[{"type":"function","function":{"name":"look","parameters":{}}}]'
    )
    assert list(Prompts(counter).with_tools(units_of_prompt)) == units_of_prompt
