"""Nothing prints contents of a message, result, name or setting."""

from contextlib import ExitStack

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.conftest import Service, example, session_walkers
from tests.api.test_durability import store_locked
from tests.server.servers import another_server
from tests.support.provider_double import provider
from tests.support.transcripts import UNUSUAL, assistant, call, result, user

CANARY = "CANARY_5512"
RUN: list[Json] = [
    user(f"{CANARY} please"),
    assistant(f"{CANARY}!", call(f"{CANARY}_1", f"tool_{CANARY}", f'{{"x": "{CANARY}"}}')),
    result(f"{CANARY}_1", f"{CANARY} " * 2000),
    assistant(f"It is {CANARY}.", call("b", "look")),
    result("b", f"{CANARY} again"),
]


@pytest.mark.slow
def test_failures_print_no_contents(service: Service) -> None:
    alice = service.new_user()
    with ExitStack() as stack:
        quoting = stack.enter_context(provider(lambda body: (401, {"error": body})))
        environment = quoting.environment(model="openai/refusing", embed_model="openai/refusing")
        environment["OPENAI_API_KEY"] = CANARY
        server = stack.enter_context(another_server(service.data, environment, patient=False))
        with server.api(alice.api.token) as api:
            session = {"session": CANARY}
            assert len(api("render", **session, messages=RUN, budget=2000)["warnings"]) == 2
            for walker in [name for name in session_walkers(service) if name != "delete_session"]:
                assert api.post(walker, **example(walker, CANARY)).status_code in (200, 404)
            api("recall", **session, query=CANARY)
            export = api("export_session", **session)
            api("import_session", session=f"{CANARY} copy", data=export)
            statuses = [
                api.post("render", **session, messages=[*RUN, {"role": CANARY}]).status_code,
                api.post("render", **session, messages=RUN, policy=CANARY).status_code,
                api.post("render", **session, messages=RUN, parameters={CANARY: 1}).status_code,
                api.post("sync", **session, messages=RUN[1:], offset=9, prefix=CANARY).status_code,
                api.post("import_session", data=export | {"head": CANARY}).status_code,
                api.post("sync", body=f'{{"messages": "{CANARY}').status_code,
                api.post(CANARY).status_code,
            ]
            assert statuses == [422, 422, 422, 409, 422, 400, 404]
            with store_locked(service.data):
                for walker, fields in (
                    ("sync", session | {"messages": [*RUN, *UNUSUAL[2:], user(CANARY)]}),
                    ("delete_session", session),
                ):
                    assert api.post(walker, **fields).status_code == 503
            api("delete_session", **session)
        server.stop()
    assert server.out.count("\n") == 1
    printed = server.err
    assert printed.count("walker delete_session failed: ") == 1
    assert "request failed" not in printed
    assert CANARY not in server.out + printed
