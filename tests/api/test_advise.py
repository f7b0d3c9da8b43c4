"""A stored session's verdict is that of a file which holds it, and asking for it stores nothing."""

from evaluation.advice import advise_on_session, first_calls
from tests.api.client import Api
from tests.support.transcripts import agent_run

RUN = agent_run(30, lines=60)


def test_a_stored_session_is_advised_on_as_its_messages_are(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    before = api("export_session", session="s")
    report = api("advise", session="s")
    told = advise_on_session(RUN).to_json()
    assert report["sentence"] == told["sentence"]
    assert report["rule"] == told["rule"] == "openai"
    assert [each["cost"] for each in report["options"]] == [
        each["cost"]["value"] for each in told["options"]
    ]
    assert len(report["options"]) == 5
    assert report["calls"] == report["last"] == sum(m["role"] == "assistant" for m in RUN)
    assert api("export_session", session="s") == before


def test_only_the_first_calls_wanted_are_weighed(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    report = api("advise", session="s", calls=3)
    taken, last = first_calls(RUN, 3)
    assert (report["calls"], report["last"]) == (3, last)
    assert report["sentence"] == advise_on_session(taken).sentence
    assert "there is nothing to leave out" in report["sentence"]


def test_other_policies_and_budgets_can_be_weighed(api: Api) -> None:
    api("sync", session="s", messages=RUN)
    policies, budgets = ["prune", "contextrender"], [3000, 96000]
    report = api("advise", session="s", calls=20, policies=policies, budgets=budgets)
    tried = [(each["policy"], each["budget"]) for each in report["options"]]
    assert tried == [(policy, budget) for policy in policies for budget in budgets]
