"""Redaction rules remove secrets from messages before they are stored, over real HTTP and files."""
# ruff: noqa: E501

import json
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.server.limits.redaction import RULES, Redaction, read_rules
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.graph import stored_rows
from tests.server.servers import Server, forked_server
from tests.support.transcripts import assistant, result, step, user

KEY = "sk-canary7731canary7731canary"
TICKET = "TICKET-99120"


def history(turns: int) -> list[dict[str, Any]]:
    """Return a history with the key in texts, arguments, parts and results."""
    messages: list[dict[str, Any]] = [user(f"Log in with {KEY}.")]
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
    with forked_server(data, "--log-level", "debug", CONTEXTRENDER_REDACT=rules) as server:
        yield server


def test_secret_is_marked_and_never_stored_or_logged(redacting: Server) -> None:
    with redacting.api() as api:
        api("render", session="once", messages=history(3))
        exported = api("export_session", session="once")
        data = exported | {"session": "copy"}
        text = json.dumps(data).replace("[redacted:keys]", KEY)
        api("import_session", data=json.loads(text))
        copied = json.dumps(api("export_session", session="copy"))
        api.refused("render", 422, "invalid_request", session="x", messages=[{"role": KEY}])
    for export_text in (json.dumps(exported), copied):
        assert "[redacted:keys]" in export_text and "[redacted:ticket]" in export_text
        assert KEY not in export_text and TICKET not in export_text
    assert KEY not in redacting.out + redacting.err
    contents = stored_rows(redacting.data)
    assert any(b"[redacted:keys]" in row for row in contents)
    assert not [row for row in contents if b"canary7731" in row or b"99120" in row]


def test_no_reply_has_the_secret(redacting: Server) -> None:
    """An excerpt, a recalled result, messages of the prompt, and a text after a compaction."""
    messages = history(8)
    messages += step(
        "c9",
        "look",
        "{}",
        "\n".join(f"order ORD-{number}: {KEY} {TICKET}" for number in range(900)),
    )
    messages += [assistant("Done."), user("And?")]
    history_fields = {"session": "seen", "messages": messages}
    prompt = {**history_fields, "budget": 3000, "policy": "contextrender_excerpts"}
    with redacting.api() as api:
        plan = api("render", **prompt, output="plan")
        replies = [
            plan,
            api("render", **prompt, output="messages"),
            api("recall", session="seen", query="login"),
            api("recall", session="seen", results=[2]),
            api("compact", **history_fields, tokens=2000),
            api("search", session="seen", query="Log in"),
        ]
    assert "excerpt" in {substitute["kind"] for substitute in plan["substitutes"]}
    for reply in map(json.dumps, replies):
        assert "[redacted:" in reply
        assert KEY not in reply and TICKET not in reply


def test_unredacted_history_continues_the_session(redacting: Server) -> None:
    """Full histories and new messages after a prefix make one branch without duplicates."""
    with redacting.api() as api:
        messages = history(6)
        first = api("render", session="goes-on", messages=messages[:5], output="plan")
        reply = api("render", session="goes-on", messages=messages[:7], output="plan")
        assert reply["offset"] == 7
        place = {"offset": reply["offset"], "prefix": reply["digest"]}
        last = api("render", session="goes-on", messages=messages[7:], **place)
        repeated = api("render", session="goes-on", messages=messages)
        shape = api("inspect_session", session="goes-on")
    assert first["digest"] != reply["digest"]
    assert repeated["digest"] == last["digest"]
    assert [line["messages"] for line in shape["branches"]] == [len(messages)]


def test_roles_and_ids_stay_and_arguments_stay_json() -> None:
    greedy = Redaction({"all": r"(?s)item.*|tool|call_1"})
    call = {"id": "call_1", "type": "function", "function": {"name": "look"}}
    call["function"] = {"name": "look", "arguments": '{"a": "item 7", "b": [1, "x"]}'}
    message = {"role": "tool", "tool_call_id": "call_1", "content": "a tool", "tool_calls": [call]}
    redacted = greedy.redact({"messages": [message]})["messages"][0]
    assert (redacted["role"], redacted["tool_call_id"], redacted["content"]) == (
        "tool",
        "call_1",
        "a [redacted:all]",
    )
    assert redacted["tool_calls"][0]["id"] == "call_1"
    arguments = redacted["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"a": "[redacted:all]", "b": [1, "x"]}


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("broken (a", "not an RE2 pattern: missing \\)"),
        ("backwards (a)\\1", "not an RE2 pattern"),
        ("empty x*", "matches an empty text"),
        ("alone", "line 1 must be a name and a pattern"),
    ],
)
def test_invalid_rule_is_refused_at_start(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "rules"
    path.write_text(text)
    with pytest.raises(CommandError, match=error):
        Redaction.of([str(path)])
    with pytest.raises(CommandError, match="neither a rule"):
        read_rules(tmp_path / "nowhere")


AWS_SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"aws_secret_access_key = {AWS_SECRET}", "[redacted:keys]"),
        (f'{{"SecretAccessKey": "{AWS_SECRET}"}}', '{"[redacted:keys]"}'),
        (f"export AWS_SECRET_ACCESS_KEY={AWS_SECRET}", "export [redacted:keys]"),
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
def test_secrets_are_found_by_preceding_text(text: str, expected: str | None) -> None:
    once = Redaction.of(RULES).redact_text(text)
    assert once == Redaction.of(RULES).redact_text(once) == (expected or text)


@pytest.mark.parametrize(
    "arguments",
    [
        json.dumps({"env": {"k": KEY}}).replace("s", "\\u0073"),
        json.dumps({"password": "hunter22"}).replace("u", "\\u0075"),
        json.dumps({"k": KEY, "half": "\ud83d"}),
    ],
)
def test_escaped_arguments_are_redacted(arguments: str) -> None:
    redaction = Redaction.of(["keys", "passwords"])
    redacted = redacted_arguments(redaction, arguments)
    assert json.loads(redacted).keys() == json.loads(arguments).keys()
    redacted.encode()
    assert "[redacted:" in redacted and KEY not in redacted and "hunter22" not in redacted
    plain = json.dumps({"text": "f\u00fcr"})
    assert redacted_arguments(redaction, plain) == plain


def redacted_arguments(redaction: Redaction, arguments: str) -> str:
    """Return a call's arguments after redaction."""
    call = {"id": "c", "function": {"name": "run", "arguments": arguments}}
    changed = redaction.redact({"messages": [{"role": "assistant", "tool_calls": [call]}]})
    return str(changed["messages"][0]["tool_calls"][0]["function"]["arguments"])


WORD = string.ascii_letters + string.digits


def random_text(size: int) -> st.SearchStrategy[str]:
    return st.text(WORD, min_size=size, max_size=size)


SECRETS: dict[str, st.SearchStrategy[tuple[str, str]]] = {
    "keys": random_text(24).map(lambda secret: ("note", f"sk-{secret}")),
    "AWS keys": st.tuples(st.sampled_from(["aws_secret_access_key", "SecretAccessKey", "AWS_SECRET_KEY"]), random_text(40)),
    "passwords": st.tuples(st.sampled_from(["password", "DB_PASSWORD", "secret", "api_key", "refresh-token"]), random_text(12)),
    "tokens": random_text(20).map(lambda secret: ("note", f"Bearer {secret}")),
    "private_keys": random_text(40).map(lambda secret: ("note", f"-----BEGIN RSA PRIVATE KEY-----\n{secret}")),
    "emails": random_text(12).map(lambda secret: ("note", f"{secret}@example.org")),
}  # fmt: skip
"""A name and a value whose last word is secret, for each rule."""


@st.composite
def structures(draw: st.DrawFn, name: str, value: str) -> Any:
    """Return JSON that has the value under the name, somewhere."""
    leaf: Any = draw(st.sampled_from([value, [value], [[value, value]], {name: value}]))
    structure: Any = {"path": "a/b.py", name: leaf, "lines": 3}
    for _ in range(draw(st.integers(0, 3))):
        around = draw(st.sampled_from(["mapping", "list", "text", "two lines"]))
        structure = {
            "mapping": {"env": structure, "n": None},
            "list": [1, structure],
            "text": {"body": json.dumps(structure)},
            "two lines": {"body": json.dumps(structure, indent=2)},
        }[around]
    if name == "note" and draw(st.booleans()):
        structure = {value: structure}
    return structure


@st.composite
def histories(draw: st.DrawFn) -> tuple[str, list[dict[str, Any]]]:
    """Return a secret and a history that has it in one place."""
    name, value = draw(st.one_of(list(SECRETS.values())))
    structure = draw(structures(name, value))
    escaped = draw(st.booleans())
    text = json.dumps(structure if isinstance(structure, dict) else {"items": structure})
    if escaped and name != "note":
        text = text.replace(value, "".join(f"\\u{ord(letter):04x}" for letter in value))
    messages = step("c1", "run", text, draw(st.sampled_from([text, "done"])))
    use = {"type": "tool_use", "id": "c2", "name": "run", "input": {"all": structure}}
    answer = result("c2", "done")
    messages += [assistant([use]), answer]
    first = {"role": "user", "content": "Go.", "note": structure, name: value}
    return value.split()[-1].split("@")[0], [first, *messages]


@given(histories())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_secret_remains_in_a_message(case: tuple[str, list[dict[str, Any]]]) -> None:
    secret, messages = case
    redaction = Redaction.of(RULES)
    changed = redaction.redact({"messages": messages})
    assert secret not in json.dumps(changed)
    for message in changed["messages"]:
        for call in message.get("tool_calls", []):
            json.loads(call["function"]["arguments"])
    assert redaction.redact(changed) == changed


def test_no_secret_is_in_the_database(tmp_path: Path) -> None:
    secrets: list[str] = []
    with (
        forked_server(tmp_path, CONTEXTRENDER_REDACT=",".join(RULES)) as server,
        server.api() as api,
    ):

        @given(histories())
        @settings(max_examples=25, deadline=None, database=None)
        def record(case: tuple[str, list[dict[str, Any]]]) -> None:
            secrets.append(case[0])
            api("render", session=f"s{len(secrets)}", messages=case[1])

        record()
    contents = stored_rows(tmp_path)
    contents += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"[redacted:" in data for data in contents)
    assert not [secret for secret in secrets for data in contents if secret.encode() in data]


def test_arguments_that_redaction_breaks_are_not_stored() -> None:
    """If a match spans two values and the rest is no JSON, only the mark is stored."""
    redaction = Redaction({"pair": r'"user": "\w+", "pin": "\d+'})
    arguments = redacted_arguments(redaction, '{"user": "ann", "pin": "7731"}')
    assert json.loads(arguments) == {"redacted": "[redacted:pair]"}


def test_names_of_unknown_message_fields_are_redacted() -> None:
    """Names of letters and underscores stay, because request formats have such names."""
    part = {"type": "text", "text": "b", KEY: 1, f"{KEY}2": 2}
    message = {"role": "user", "content": [part], KEY: {KEY: [KEY]}, "call": 1}
    changed = Redaction.of(["keys"]).redact({"messages": [message]})
    mark = "[redacted:keys]"
    part = {"type": "text", "text": "b", mark: 1, f"{mark} 2": 2}
    assert changed["messages"] == [
        {"role": "user", "content": [part], mark: {mark: [mark]}, "call": 1}
    ]
    greedy = Redaction({"call": "call|content"}).redact({"messages": [message]})
    assert greedy["messages"][0].keys() == message.keys()


def test_every_field_of_arguments_is_redacted() -> None:
    arguments = json.dumps({"id": KEY, "type": KEY, KEY: 1, f"{KEY}2": 2, "password": 77310042})
    redacted = redacted_arguments(Redaction.of(["keys", "passwords"]), arguments)
    assert json.loads(redacted) == {
        "id": "[redacted:keys]",
        "type": "[redacted:keys]",
        "[redacted:keys]": 1,
        "[redacted:keys] 2": 2,
        "password": "[redacted:passwords]",
    }


def test_fields_of_a_message_are_redacted_with_their_names() -> None:
    text, secret = {"type": "text", "text": "b"}, {"secret": ["hunter22"]}
    message = {"role": "user", "content": [text | secret], "password": 77310042, "role_name": "a"}
    message["note"] = {"aws_secret_key": AWS_SECRET, "type": KEY, "role": KEY, "id": KEY}
    redaction = Redaction.of(["keys", "passwords"])
    passwords, keys = "[redacted:passwords]", "[redacted:keys]"
    assert redaction.redact({"messages": [message]})["messages"] == [
        {
            "role": "user",
            "content": [text | {"secret": [passwords]}],
            "password": passwords,
            "role_name": "a",
            "note": {"aws_secret_key": keys, "type": keys, "role": keys, "id": KEY},
        }
    ]
    # A match in the name alone does not change the value.
    greedy = Redaction({"rule": "note|x+"}).redact({"messages": [{"note": "axa"}]})
    assert greedy == {"messages": [{"note": "a[redacted:rule]a"}]}


@pytest.mark.parametrize("fields", ["name value", "Key Value", "value key", "VALUE name"])
def test_value_is_searched_with_the_name_beside_it(fields: str) -> None:
    names = ("DB_PASSWORD", "hunter2canary")
    first, second = names if fields.lower().endswith("value") else reversed(names)
    pair = dict(zip(fields.split(), (first, second), strict=True))
    text = json.dumps({"env": [pair, {"name": "LANG", "value": "en"}]})
    call = {"id": "c", "type": "function", "function": {"name": "run", "arguments": text}}
    messages = [assistant(None, call), result("c", text)]
    changed = json.dumps(Redaction.of(["passwords"]).redact({"messages": messages}))
    assert "canary" not in changed and changed.count("DB_PASSWORD") == changed.count("LANG") == 2


def test_names_of_sessions_models_and_clients_stay() -> None:
    names = {"session": "s-1", "model": "m-1", "client": "c-1"}
    fields = {**names, "messages": [], "data": {**names, "calls": [names], "branches": []}}
    assert Redaction({"all": "[a-z]-1"}).redact(fields) == fields


@pytest.mark.slow
def test_rows_stored_before_redaction_was_set_stay(tmp_path: Path) -> None:
    messages = [user(f"Use {KEY}.")]
    with forked_server(tmp_path / "data") as server, server.api() as api:
        api("sync", session="before", messages=messages)
    with (
        forked_server(tmp_path / "data", CONTEXTRENDER_REDACT="keys") as server,
        server.api() as api,
    ):
        api("sync", session="after", messages=messages)
        exports = [str(api("export_session", session=name)) for name in ("before", "after")]
    assert [KEY in export for export in exports] == [True, False]
