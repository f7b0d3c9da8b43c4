"""Rules take secrets out of messages before they are stored; over real HTTP and files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.server.limits.redaction import RULES, Redaction, read_rules
from contextrender_bridge.store import rows
from contextrender_bridge.store.sqlite import SqliteStore

from tests.server.servers import Server, served
from tests.support.transcripts import step

KEY = "sk-canary7731canary7731canary"
TICKET = "TICKET-99120"


def history(turns: int) -> list[dict[str, Any]]:
    """Steps that name the key in texts, arguments, parts and results."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": f"Log in with {KEY}."}]
    for turn in range(turns):
        arguments = json.dumps({"key": KEY, "for": TICKET, "turn": turn})
        parts = [{"type": "text", "text": f"in as item_{turn}: {KEY} {TICKET}"}]
        messages += step(f"c{turn}", "login", arguments, parts)
    return messages


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("redaction")
    (folder / "Rules").write_text("# ours\nticket TICKET-[0-9]+\n")
    return folder


@pytest.fixture(scope="module")
def redacting(place: Path) -> Iterator[Server]:
    data = place / "data"
    rules = f"keys, {place / 'Rules'}"
    with served(data, "--log-level", "debug", CONTEXTRENDER_REDACT=rules) as server:
        yield server


def test_it_is_never_stored_nor_logged_and_its_place_is_marked(redacting: Server) -> None:
    with redacting.api() as api:
        api("render", session="once", messages=history(3))
        exported = api("export_session", session="once")
        data = exported | {"session": "copy"}
        text = json.dumps(data).replace("[redacted:keys]", KEY)
        api("import_session", data=json.loads(text))
        copied = json.dumps(api("export_session", session="copy"))
        api.refused("render", 422, "invalid_request", session="x", messages=[{"role": KEY}])
    for told in (json.dumps(exported), copied):
        assert "[redacted:keys]" in told and "[redacted:ticket]" in told
        assert KEY not in told and TICKET not in told
    assert KEY not in redacting.out + redacting.err
    store = SqliteStore(redacting.data / "store.db")
    held = [rows.unpack(data) for (data,) in store.read("SELECT data FROM nodes")]
    held += [rows.unpack(data) for (data,) in store.read("SELECT data FROM edges") if data]
    store.close()
    assert any(b"[redacted:keys]" in row for row in held)
    assert not [row for row in held if b"canary7731" in row or b"99120" in row]


def test_whoever_sends_the_unredacted_history_goes_on(redacting: Server) -> None:
    """Whole each time, or what is new after the prefix: one branch, nothing recorded twice."""
    with redacting.api() as api:
        whole = history(6)
        first = api("render", session="goes-on", messages=whole[:5], output="plan")
        again = api("render", session="goes-on", messages=whole[:7], output="plan")
        assert again["offset"] == 7
        place = {"offset": again["offset"], "prefix": again["digest"]}
        last = api("render", session="goes-on", messages=whole[7:], **place)
        repeated = api("render", session="goes-on", messages=whole)
        shape = api("inspect_session", session="goes-on")
    assert first["digest"] != again["digest"]
    assert repeated["digest"] == last["digest"]
    assert [line["messages"] for line in shape["branches"]] == [len(whole)]


def test_what_a_message_is_stays_and_arguments_stay_json() -> None:
    greedy = Redaction({"all": r"(?s)item.*|tool|call_1"})
    call = {"id": "call_1", "type": "function", "function": {"name": "look"}}
    call["function"] = {"name": "look", "arguments": '{"a": "item 7", "b": [1, "x"]}'}
    message = {"role": "tool", "tool_call_id": "call_1", "content": "a tool", "tool_calls": [call]}
    told = greedy.applied({"messages": [message]})["messages"][0]
    assert (told["role"], told["tool_call_id"], told["content"]) == (
        "tool",
        "call_1",
        "a [redacted:all]",
    )
    assert told["tool_calls"][0]["id"] == "call_1"
    arguments = told["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"a": "[redacted:all]", "b": [1, "x"]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("broken (a", "not an RE2 pattern: missing \\)"),
        ("backwards (a)\\1", "not an RE2 pattern"),
        ("empty x*", "matches an empty text"),
        ("alone", "line 1 must be a name and a pattern"),
    ],
)
def test_an_unfit_rule_is_refused_at_the_start(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "rules"
    path.write_text(text)
    with pytest.raises(CommandError, match=said):
        Redaction.of([str(path)])
    with pytest.raises(CommandError, match="neither a rule"):
        read_rules(tmp_path / "nowhere")


WRITTEN = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"aws_secret_access_key = {WRITTEN}", "[redacted:keys]"),
        (f'{{"SecretAccessKey": "{WRITTEN}"}}', '{"[redacted:keys]"}'),
        (f"export AWS_SECRET_ACCESS_KEY={WRITTEN}", "export [redacted:keys]"),
        ("postgres://me:hunter22@db:5432/x", "postgres://me:[redacted:passwords]@db:5432/x"),
        ("redis://:hunter22@cache/0", "redis://:[redacted:passwords]@cache/0"),
        ("host=db password=hunter22 port=1", "host=db password=[redacted:passwords] port=1"),
        ('{"password": "hunter22", "a": 1}', '{"password": "[redacted:passwords]", "a": 1}'),
        ("DB_PASSWORD='hunter22'", "DB_PASSWORD='[redacted:passwords]'"),
        ("It is sk-proj-abcdefghijklmnop, é.", "It is [redacted:keys], é."),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "[redacted:keys]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted:keys]"),
        ("Bearer abcdefghijklmnop.qrstuv", "[redacted:tokens]"),
        ("eyJhbGciOi.eyJzdWIiOi.c2lnbmF0dXJl", "[redacted:tokens]"),
        ("-----BEGIN PRIVATE KEY-----\nMI\n-----END PRIVATE KEY-----", "[redacted:private_keys]"),
        ("to ann.b+c@mail.example.org", "to [redacted:emails]"),
        ("Nothing of interest: skip, a-b, x@y.", None),
        ("http://host:8080/a?b=@c the password: see below", None),
        ("commit 0123456789abcdef0123456789abcdef01234567 secret", None),
    ],
)
def test_secrets_are_found_by_what_stands_before_them(text: str, left: str | None) -> None:
    once = Redaction.of(RULES).text(text)
    assert once == Redaction.of(RULES).text(once) == (left or text)


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"env": {"k": KEY}}).replace("s", "\\u0073"),
        json.dumps({"password": "hunter22"}).replace("u", "\\u0075"),
        json.dumps({"k": KEY, "half": "\ud83d"}),
    ],
)
def test_arguments_are_read_decoded(arguments: str) -> None:
    call = {"id": "c", "function": {"name": "run", "arguments": arguments}}
    redaction = Redaction.of(["keys", "passwords"])
    changed = redaction.applied({"messages": [{"role": "assistant", "tool_calls": [call]}]})
    left = changed["messages"][0]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(left).keys() == json.loads(arguments).keys()
    left.encode()
    assert "[redacted:" in left and KEY not in left and "hunter22" not in left
    plain = json.dumps({"text": "f\u00fcr"})
    call["function"] = {"name": "run", "arguments": plain}
    kept = redaction.applied({"messages": [{"role": "assistant", "tool_calls": [call]}]})
    assert kept["messages"][0]["tool_calls"][0]["function"]["arguments"] == plain
