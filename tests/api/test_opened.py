"""Files sent to `open_file` are read, diagnosed and imported; the stored session gets the same
diagnosis.
"""

import json
import os
from base64 import b64encode
from pathlib import Path

import pytest
from contextrender_bridge.base.wire import Json

from tests.api.client import Api
from tests.api.conftest import Service, User
from tests.audit.homes import CLAUDE, write_files, write_store
from tests.audit.test_honesty import claude_session
from tests.audit.test_open import leave_opencode
from tests.support.transcripts import assistant, step, user

LINES = claude_session("2.1.220")
LINES[4]["message"]["content"][0]["text"] = "This session is being continued from a previous one."


def file_fields(raw: bytes, name: str = "a.jsonl") -> dict[str, str]:
    return {"name": name, "content": b64encode(raw).decode()}


def test_file_is_read_imported_and_diagnosed(alice: User) -> None:
    raw = "".join(json.dumps(line) + "\n" for line in LINES).encode()
    opened = alice.api("open_file", **file_fields(raw, f"{CLAUDE}/../a.jsonl"))
    (session,) = opened["sessions"]
    assert session["source"] == "Claude Code" and session["about"] == "Go."
    assert [loss["values"] for loss in session["losses"]] == [["TOKEN_ALPHA"]]
    assert not alice.graph().nodes  # nothing is stored until it is imported
    alice.api("import_session", data=session["data"])
    reply = alice.api("diagnose", session=session["session"])
    assert reply["summary"] == session["summary"]
    assert reply["losses"] == session["losses"]


def test_opencode_store_is_read(alice: User, tmp_path: Path) -> None:
    path = leave_opencode(tmp_path)
    part = json.dumps({"type": "text", "text": "Seen."})
    write_store(tmp_path, path.name, f"insert into part values('p', 'msg_1', '{part}')")
    (session,) = alice.api("open_file", **file_fields(path.read_bytes(), "opencode.db"))["sessions"]
    assert session["source"] == "opencode"


def test_file_without_sessions_is_refused(alice: User) -> None:
    error = alice.api.refused("open_file", 422, "invalid_request", **file_fields(b"hello"))
    assert "there are no sessions in a.jsonl" in error["message"]


def test_subagent_branch_is_not_a_compaction(alice: User) -> None:
    main: list[Json] = [user("Go."), *step("a", "look", "{}", "TOKEN_ALPHA"), assistant("Seen.")]
    alice.api("sync", session="s", messages=main)
    alice.api("sync", session="s", messages=[user("Look too."), assistant("TOKEN_ALPHA")])
    assert alice.api("diagnose", session="s")["losses"] == []


def test_agents_files_are_read_for_the_local_user_alone(
    service: Service, alice: User, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(home, {f"{CLAUDE}/a.jsonl": LINES})
    local = Api(service.http, service.accounts.local_token())
    if os.environ.get("TEST_STORE") == "postgres":  # a database that other machines may share
        assert local("open_local_sessions")["agents"] == []
        return
    assert local("open_local_sessions") == {"agents": ["claude"], "sessions": [], "unreadable": []}
    (session,) = local("open_local_sessions", agent="claude")["sessions"]
    assert session["source"] == "Claude Code" and session["about"] == "Go."

    assert alice.api("open_local_sessions")["agents"] == []
    alice.api.refused("open_local_sessions", 422, "invalid_request", agent="claude")
    with monkeypatch.context() as patch:
        patch.setattr("contextrender_bridge.server.front.is_loopback", lambda _: False)
        local.refused("open_local_sessions", 422, "invalid_request", agent="claude")


def test_demo_is_opened_under_the_settings_of_agents(alice: User) -> None:
    (session,) = alice.api("open_local_sessions", agent="demo")["sessions"]
    name = alice.api("import_session", data=session["data"])["session"]
    settings = alice.api("inspect_session", session=name)["settings"]
    assert (settings["policy"], settings["budget"]) == ("contextrender_cache_aware", "auto")
