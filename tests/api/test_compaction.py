"""`compact` returns a text that replaces a history; the next call continues the session."""

import json
import re

from contextrender_bridge.evaluation.compaction_methods import CompactedHistory

from tests.api.client import Api
from tests.support.transcripts import agent_run, assistant, user

RUN = agent_run(60)
PLACE = re.compile(r"^\[ContextRender compaction: branch (\d+), (\d+) messages, (\S+)\]$", re.M)


def test_text_has_user_messages_and_every_result(api: Api) -> None:
    reply = api("compact", session="s", messages=RUN, tokens=4_000)
    text = reply["text"]
    assert reply["tokens"] <= 4_000 < reply["tokens_before"]
    assert 0 < reply["complete"] < reply["results"] == 60
    assert reply["excerpts"] > 0
    for message in RUN:
        if message["role"] == "user":
            assert message["content"] in text
        if message["role"] == "system":
            assert message["content"] not in text
    assert RUN[-3]["content"] in text or RUN[-2]["content"] in text
    named_positions = {int(number) for number in re.findall(r"esult (\d+)(?:: | is omitted)", text)}
    older = re.search(r"positions (\d+) to (\d+)", text)
    results = {position for position, message in enumerate(RUN) if message["role"] == "tool"}
    if older:
        named_positions |= {
            position for position in results if int(older[1]) <= position <= int(older[2])
        }
    assert named_positions == results
    assert api("compact", session="s", messages=RUN, tokens=4_000) == reply


def test_evaluation_builds_the_same_text(api: Api) -> None:
    history = CompactedHistory(RUN, "")
    for summary in ("", "The agent looked at sixty orders."):
        reply = api("compact", session="s", messages=RUN, tokens=4_000, summary=summary)
        assert history.rendered_results(4_000, summary) == reply["text"]


def test_next_compaction_selects_from_all_results(api: Api) -> None:
    first = api("compact", session="s", messages=RUN, tokens=4_000)
    match = PLACE.search(first["text"])
    assert match and int(match[2]) == len(RUN) == first["offset"]
    assert match[3] == first["digest"]
    # The new messages use a result that the first text had omitted.
    more = [user("Who works on ORD-1003?"), assistant("ORD-1003: clerk_2@example.com knows.")]
    fields = {"offset": first["offset"], "prefix": first["digest"], "tokens": 4_000}
    second = api("compact", session="s", messages=more, **fields)
    assert second["branch"] == first["branch"]
    assert second["offset"] == len(RUN) + 2
    assert second["results"] == 60
    assert "Who works on ORD-1003?" in second["text"]
    assert RUN[1]["content"] in second["text"]
    assert second["tokens"] <= 4_000


def test_small_history_is_complete(api: Api) -> None:
    reply = api("compact", session="s", messages=agent_run(3))
    assert (reply["complete"], reply["excerpts"]) == (3, 0)
    assert all(
        str(message["content"]) in reply["text"]
        for message in agent_run(3)
        if message["role"] != "system"
    )
    assert all(
        json.loads(call["function"]["arguments"])["order_id"] in reply["text"]
        for message in agent_run(3)
        for call in message.get("tool_calls") or ()
    )


def test_text_is_at_most_half_of_the_window(api: Api) -> None:
    assert api("compact", session="s", messages=RUN, window=5_000)["tokens"] <= 2_500
    reply = api("compact", session="t", messages=RUN, model="gpt-4", tokens=30_000)
    assert reply["tokens"] <= 4_096  # of 8,192


def test_summary_comes_first_and_counts_against_the_limit(api: Api) -> None:
    summary = "The agent looked at sixty orders. " * 40
    reply = api("compact", session="s", messages=RUN, tokens=4_000, summary=summary)
    assert reply["tokens"] <= 4_000
    assert reply["text"].index(summary) < reply["text"].index(RUN[1]["content"])
    assert "I look up" not in reply["text"]


def test_only_results_omits_messages_and_fits_more_results(api: Api) -> None:
    reply = api("compact", session="s", messages=RUN, tokens=4_000, only_results=True)
    assert RUN[1]["content"] not in reply["text"] and "I look up" not in reply["text"]
    usual = api("compact", session="s", messages=RUN, tokens=4_000)
    assert reply["complete"] + reply["excerpts"] > usual["complete"] + usual["excerpts"]


def test_compaction_is_recorded_as_call_with_client(api: Api) -> None:
    api("compact", session="s", messages=RUN, tokens=4_000, client="claude")
    api("sync", session="s", messages=[*RUN, assistant("Done.")])
    (row,) = api("list_sessions")["sessions"]
    assert "claude" in json.dumps(row)
    assert api("explain", session="s", turn=61)["policy"] == "contextrender_excerpts"


def test_invalid_compaction_is_refused(api: Api) -> None:
    for fields in ({"tokens": 1_999}, {"tokens": 10**7}, {"window": -1}, {"client": "c" * 81}):
        error = api.refused(
            "compact", 422, "invalid_request", session="s", messages=RUN[:3], **fields
        )
        assert next(iter(fields)) in error["message"]
    api.refused("compact", 409, "history_diverged", session="s", messages=[], offset=3, prefix="x")
