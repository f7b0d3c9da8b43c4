"""The times and the error of a provider's reply, on the page and in the terminal."""

from tests.console.conftest import ORDERS, Console, Service
from tests.console.looking import expect
from tests.console.test_terminal import run


def test_call_shows_times_and_error_of_its_reply(console: Console, service: Service) -> None:
    positions = [
        position
        for position, message in enumerate(service.runs[ORDERS])
        if message["role"] == "assistant"
    ]
    failure = {"messages": positions[5], "status": 429, "error": "rate_limit_exceeded"}
    times = {"first_byte_ms": 1234, "reply_ms": 3400, "status": 200}
    usage = {"messages": positions[4], "uncached": 900, "output": 50, **times}
    late = {"messages": positions[6], "status": 200, "error": "overloaded_error"}
    for report in (failure, usage, late):
        assert service("record_usage", session=ORDERS, usage=report)["recorded"]
    printed_times = "first byte after 1.2 s, whole answer after 3.4 s"
    printed_error = "rate_limit_exceeded"
    page = console.open(ORDERS, "call", 5).page
    expect(page.get_by_role("region", name="The answer")).to_contain_text(printed_times)
    console.open(ORDERS, "call", 6)
    expect(page.locator(".warnings")).to_contain_text(f"status 429 ({printed_error})")
    console.open(ORDERS, "call", 7)
    expect(page.locator(".warnings")).to_contain_text("ended with the error overloaded_error")
    assert "with the error overloaded_error" in run(service, "show", ORDERS, "--turn", "7")
    assert printed_times in " ".join(run(service, "show", ORDERS, "--turn", "5").split())
    assert f"failed with 429 {printed_error}" in run(service, "show", ORDERS, "--turn", "6")
