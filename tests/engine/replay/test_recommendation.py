"""The recommended setting and its sentence."""

from contextrender_bridge.engine.replay.recommendation import (
    Replayed,
    recommend,
    sentence_on,
    settings_to_compare,
)

FULL = Replayed("full", "auto", 1.0, 1.0, 100, 0)


def best_of(options: list[Replayed]) -> int | None:
    return recommend([option.rating for option in options])


def option(policy: str, budget: int | str, cost: float | None, misses: int) -> Replayed:
    return Replayed(policy, budget, cost, 1.0, 100, misses)


def test_agent_default_is_recommended_unless_it_misses_more() -> None:
    default = option("contextrender_cache_aware", "auto", 0.7, 4)
    cheaper = option("contextrender_cache_aware", 6000, 0.4, 5)
    assert best_of([FULL, cheaper, default]) == 2
    misses_more = option("contextrender_cache_aware", "auto", 0.7, 6)
    assert best_of([FULL, cheaper, misses_more]) == 1


def test_setting_with_little_saving_or_many_misses_is_not_recommended() -> None:
    options = [FULL, option("a", 6000, 0.99, 0), option("b", 6000, 0.1, 6), option("c", 1, None, 0)]
    assert best_of(options) is None
    assert "Full history is best" in sentence_on(options, None, 1)
    assert sentence_on(options, None, 0).endswith("It is the setting in use.")


def test_sentence_names_recommendation_and_current_setting() -> None:
    options = [option("a", 6000, 0.25, 3), option("b", 12000, 0.5, 10)]
    assert sentence_on(options, 0, 0) == (
        "a with a budget of 6,000 tokens is recommended: $0.25 and 97% of the steps with all "
        "values, instead of $1.00 for the full history. It is the setting in use."
    )
    assert sentence_on(options, 0, 1).endswith(
        "in use: $0.50 and 90% of the steps with all values."
    )
    assert "no price" in sentence_on([option("a", 1, None, 0)], None, 0)


def test_each_option_is_compared_once() -> None:
    options = list(settings_to_compare("contextrender", 12_000, 20_000))
    assert options[0] == ("contextrender", 12_000) and len(options) == len(set(options))
    budgets = [budget for policy, budget in options if policy == "contextrender"]
    assert budgets == [12_000, 6_000]
    assert [policy for policy, _ in settings_to_compare("full", "auto", 1)].count("full") == 1
