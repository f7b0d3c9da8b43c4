"""The made-up run of the benchmarks."""

import json

from bench.sample import Sample


def test_runs_are_always_the_same_and_draw_on_their_results() -> None:
    one, other = Sample(3).run(40), Sample(3).run(40)
    assert one == other != Sample(4).run(40)
    results = [message["content"] for message in one if message["role"] == "tool"]
    assert {len(text) for text in results} == {2000}
    drawn = [
        json.loads(message["tool_calls"][0]["function"]["arguments"])["query"]
        for message in one[4::2]
    ]
    earlier = [
        any(value in text for text in results[: number + 1]) for number, value in enumerate(drawn)
    ]
    assert sum(earlier) / len(earlier) > 0.6
