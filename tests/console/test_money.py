"""What a session saved is the same wherever it is told: one definition of tokens and of dollars."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.console.conftest import Console, Service
from tests.console.test_terminal import run
from tests.console.transcripts import make_run

MODELS = ("gpt-4o", "claude-sonnet-4-5", "nobody-knows-this")


@pytest.fixture(scope="module")
def service_with_models(service: Service) -> Service:
    """A service with a session of each of these models, one of them without a price."""
    for seed, model in enumerate(MODELS):
        service.render(model, make_run(40, seed), model=model, budget=3000)
    return service


def ran(service: Service, *words: str) -> Any:
    return json.loads(run(service, *words, "--json"))


def test_every_place_tells_the_same_savings(service_with_models: Service, console: Console) -> None:
    service = service_with_models
    rows = {row["model"]: row for row in service("total_savings")["rows"]}
    printed = {row["model"]: row for row in ran(service, "savings")["rows"]}
    listed = {one["session"]: one for one in ran(service, "sessions", "--limit", "200")["sessions"]}
    for model in MODELS:
        row, counted = rows[model], listed[model]["counted"]
        own = service.complete("savings", session=model)["totals"]
        assert printed[model] == row
        assert (own["turns"], own["prompt"], own["full"]) == (
            *(row["calls"], row["prompt"], row["capped"]),
        )
        assert (own["cached"], own["output"]) == (row["cached"], row["output"])
        assert own["cost"] == pytest.approx(row["cost"])
        assert own["full_cost"] == pytest.approx(row["full_cost"])
        assert (counted["calls"], counted["prompt"], counted["full"]) == (
            *(row["calls"], row["prompt"], row["capped"]),
        )
        assert (counted["drawn"], counted["seen"]) == (row["drawn"], row["seen"])
        link = service("share_session", session=model, days=1)
        secret = link["path"].split("view=")[1].split("&")[0]
        shared = service.complete("savings", token=secret, session=model)
        assert shared["totals"] == own
    assert rows["nobody-knows-this"]["cost"] is None

    told = {}
    for model in MODELS:
        console.open(model, "savings")
        figure = console.page.locator(".savings .figure", has_text="Cost, counted").locator("dd")
        expect(figure).to_have_text(re.compile("instead of|no price"))
        told[model] = figure.inner_text()
    assert told["nobody-knows-this"] == "no price"
    console.page.evaluate("location.hash = '#/overall'")
    console.page.get_by_role("combobox", name="By").select_option("day and model")
    for model in MODELS:
        line = console.page.locator("tbody tr", has_text=model).filter(
            has_text=re.compile(r"^\d{4}-")
        )
        expect(line).to_contain_text(told[model])
