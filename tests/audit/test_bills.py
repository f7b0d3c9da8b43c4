"""Each model call counts once, every session format is read or named, and every rate has its
price.
"""
# ruff: noqa: E501

import json
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import zstandard
from contextrender_bridge.audit.audit_input import AuditInput
from contextrender_bridge.audit.files import read_files
from contextrender_bridge.base.wire import Json

from tests.audit.homes import (
    CLAUDE,
    CODEX,
    OPENCODE,
    STORE,
    at,
    audit_home,
    claude,
    count,
    dollars,
    meta,
    opencode_row,
    sums,
    write_files,
    write_store,
)
from tests.support.command import printed
from tests.support.transcripts import user

PARENT = [*meta("parent"), count(0, 1000, 1000)]
FORK = [*meta("fork", 1, forked_from_id="parent"), count(1, 1000, 1000), count(2, 3000, 2000)]


@pytest.mark.parametrize("names", [*permutations(["rollout-a", "rollout-b"])])
def test_copied_history_of_codex_fork_counts_once(home: Path, names: tuple[str, str]) -> None:
    files = {f"{CODEX}/{names[0]}.jsonl": PARENT, f"{CODEX}/{names[1]}.jsonl": FORK}
    assert sums(audit_home(home, files)) == (2, 3000)


def test_nested_forks_and_forks_of_missing_parent_count_once(home: Path) -> None:
    nested_fork = [
        *meta("third", 5, forked_from_id="fork"),
        count(5, 1000, 1000),
        count(5, 3000, 2000),
        count(7, 3500, 500),
    ]
    lost_rows = [
        [*meta(id, 9, forked_from_id="lost"), count(9, 70, 70), count(10 + number, 170, 100)]
        for number, id in enumerate(("x", "y"))
    ]
    files = {
        f"{CODEX}/rollout-{number}.jsonl": lines
        for number, lines in enumerate([nested_fork, *lost_rows, FORK, PARENT])
    }
    # 1000 + 2000 + 500; 70 once from the missing parent, and 100 from each of its forks.
    assert sums(audit_home(home, files)) == (6, 3770)


def test_fork_call_with_equal_usage_counts(home: Path) -> None:
    files = {
        f"{CODEX}/rollout-a.jsonl": [*PARENT, count(3, 3000, 2000)],
        f"{CODEX}/rollout-b.jsonl": FORK,
        f"{CODEX}/rollout-c.jsonl": [*meta("other"), count(0, 1000, 1000)],
    }
    assert sums(audit_home(home, files)) == (4, 6000)


def test_plain_and_compressed_codex_session_counts_once(home: Path) -> None:
    def compress_lines(lines: list[Json]) -> bytes:
        return zstandard.compress("".join(json.dumps(line) + "\n" for line in lines).encode())

    other = [*meta("b"), count(0, 1000, 1000)]
    files: dict[str, list[Json] | bytes] = {
        f"{CODEX}/rollout-a.jsonl": PARENT,
        ".codex/archived_sessions/rollout-a.jsonl.zst": compress_lines(
            [*PARENT, count(1, 1500, 500)]
        ),
        f"{CODEX}/rollout-b.jsonl.zst": compress_lines(other[:1]) + compress_lines(other[1:]),
        f"{CODEX}/rollout-c.jsonl.zst": compress_lines([*meta("c"), count(0, 9, 9)])[:-9],
        f"{CODEX}/rollout-d.jsonl.zst": b"no archive",
    }
    audit = audit_home(home, files)
    assert sums(audit) == (3, 2500)
    assert [name for name in "abcd" if f"rollout-{name}" in audit.sentences[0]] == ["c", "d"]


@pytest.mark.parametrize("rows", [*permutations(range(3))])
def test_copied_history_of_opencode_fork_counts_once(home: Path, rows: tuple[int, ...]) -> None:
    statements = [
        opencode_row("msg_1", "ses_b", 1000, 1000),
        opencode_row("msg_2", "ses_a", 1000, 1000),
        opencode_row("msg_3", "ses_a", 2000, 2000),
    ]
    write_store(home, f"{OPENCODE}/opencode.db", *STORE, *(statements[row] for row in rows))
    assert sums(audit_home(home)) == (2, 3000)


def test_codex_rate_limits_are_no_call_and_earlier_format_is_named(home: Path) -> None:
    limits = count(0, 0, 0)
    limits["payload"] = {"type": "token_count", "info": None, "rate_limits": {"primary": {}}}
    files = {
        f"{CODEX}/rollout-a.jsonl": [*PARENT[:2], limits, *PARENT[2:], limits],
        ".codex/sessions/rollout-2025-05-01-b.json": json.dumps({"session": {}, "items": []}),
    }
    audit = audit_home(home, files)
    assert sums(audit) == (1, 1000)
    (sentence,) = audit.sentences
    assert "rollout-2025-05-01-b.json (a format of Codex's without usage)" in sentence


def test_codex_counts_of_the_session_alone_are_read_as_differences(home: Path) -> None:
    """The third count repeats the second one. The fourth count begins at zero again."""
    counts = [count(minute, total, 0) for minute, total in enumerate([1000, 3000, 3000, 500])]
    for record in counts:
        del record["payload"]["info"]["last_token_usage"]
    fork = [*meta("fork", 9, forked_from_id="parent"), *counts[:2], count(9, 3700, 700)]
    files = {f"{CODEX}/rollout-a.jsonl": [*PARENT[:2], *counts], f"{CODEX}/rollout-b.jsonl": fork}
    assert sums(audit_home(home, files)) == (4, 4200)


def test_each_opencode_format_is_read_or_named(home: Path) -> None:
    row = {
        "type": "assistant",
        "model": {"id": "claude-opus-4-6"},
        "tokens": {"input": 1000, "output": 0, "cache": {"read": 0, "write": 0}},
        "time": {"created": 1000},
    }
    write_store(
        home,
        f"{OPENCODE}/opencode.db",
        "create table session_v2(id text)",
        "create table session_message(id text, session_id text, seq int, type text, data text)",
        f"insert into session_message values('m', 'ses_a', 1, 'assistant', '{json.dumps(row)}')",
    )
    write_store(home, f"{OPENCODE}/opencode-next.db", "create table thread(id text)")
    earlier = {
        "role": "assistant",
        "modelID": "claude-opus-4-6",
        "time": {"created": 5},
        "tokens": {"input": 30, "output": 0},
    }
    storage = f"{OPENCODE}/storage/message/ses_b"
    write_files(home, {f"{storage}/msg_1.json": json.dumps(earlier)})
    audit = audit_home(home)
    assert sums(audit) == (2, 1030)
    assert "opencode-next.db (a format of opencode's" in audit.sentences[0]


def test_opencode_session_in_files_and_store_counts_once(home: Path) -> None:
    row = opencode_row("msg_1", "ses_a", 1000, 1000)
    write_store(home, f"{OPENCODE}/opencode.db", *STORE, row)
    message_json = row[row.index("{") : row.rindex("}") + 1]
    write_files(home, {f"{OPENCODE}/storage/message/ses_a/msg_1.json": message_json})
    audit = audit_home(home)
    assert sums(audit) == (1, 1000) and len(audit.runs) == 1


def test_symlinks_are_followed_without_loops(home: Path) -> None:
    write_files(home, {"disk/demo/a.jsonl": [claude("m1", "r1")]})
    write_files(home, {"disk/b.jsonl": [*meta("b"), count(0, 7, 7)]})
    for link, target in {
        CLAUDE: "disk/demo",
        ".claude/projects/twice": "disk/demo",
        "disk/demo/loop": "disk",
        f"{CODEX}/rollout-b.jsonl": "disk/b.jsonl",
        ".local/share/opencode": "disk/stores",
    }.items():
        (home / link).parent.mkdir(parents=True, exist_ok=True)
        (home / link).symlink_to(home / target)
    write_store(home, "disk/stores/opencode.db", *STORE, opencode_row("msg_1", "ses_a", 1000, 30))
    assert sums(audit_home(home)) == (3, 1037)


def test_answers_with_equal_id_are_separate_calls(home: Path) -> None:
    words = {"type": "user", "message": user("And now?")}
    read = {"type": "user", "message": user([{"type": "tool_result"}])}
    files = {
        f"{CLAUDE}/requests.jsonl": [claude("m", "r1"), claude("m", "r2", text="two")],
        # Two rows of one answer, with the result of its first call between them.
        f"{CLAUDE}/rows.jsonl": [claude("n", "r3"), read, claude("n", "r3", text="two")],
        f"{CLAUDE}/words.jsonl": [claude("o"), words, claude("o", text="two")],
        f"{CLAUDE}/prompts.jsonl": [claude("p"), read, claude("p", tokens=2_000, text="two")],
        f"{CLAUDE}/no-request.jsonl": [claude("q"), read, claude("q", text="two")],
    }
    audit = audit_home(home, files)
    assert sums(audit) == (8, 9_000)
    texts = {run.task: [message["content"] for message in run.messages] for run in audit.runs}
    assert texts["requests"] == ["ok", "two"] and texts["rows"][0] == "ok\ntwo"


@pytest.mark.parametrize("names", [*permutations(["a", "b"])])
def test_fork_with_zero_usage_keeps_the_cost(home: Path, names: tuple[str, str]) -> None:
    files = {
        f"{CLAUDE}/{names[0]}.jsonl": [claude("m", "r1")],
        f"{CLAUDE}/{names[1]}.jsonl": [claude("m", "r1", tokens=0), claude("n", "r2")],
    }
    assert sums(audit_home(home, files)) == (2, 2_000)


def pi_event(id: str, type: str = "message", **fields: Any) -> Json:
    return {"type": type, "id": id, "timestamp": at(int(id)), **fields}


def pi_usage(tokens: int, cache_write: int = 0, **fields: int) -> Json:
    return {"input": tokens, "output": 0, "cacheRead": 0, "cacheWrite": cache_write, **fields}


def pi_answer(id: str, usage: Json, **fields: str) -> Json:
    message = {"role": "assistant", "content": id, "model": "claude-opus-4-6", "usage": usage}
    return pi_event(id, message={**message, **fields})


def test_every_call_of_pi_counts_once(home: Path) -> None:
    """Summaries, tools and warmed caches have usage in events that are no answers."""
    tool_result = {"role": "toolResult", "toolCallId": "a", "content": "x", "usage": pi_usage(30)}
    session = [
        {"type": "session", "id": "s"},
        pi_answer("1", pi_usage(1000)),
        pi_event("2", message=tool_result),
        pi_event(
            "3", "usage", kind="cache_warm", model="claude-haiku-4-5", usage=pi_usage(1_000_000)
        ),
        pi_event("4", "compaction", summary="So far.", firstKeptEntryId="2", usage=pi_usage(700)),
        pi_answer("5", pi_usage(200)),
    ]
    fork = [{"type": "session", "id": "f", "parentSession": "s"}, *session[1:]]
    fork.append(pi_event("6", "branch_summary", summary="Left.", fromId="5", usage=pi_usage(4)))
    folder = ".pi/agent/sessions/--demo--"
    audit = audit_home(home, {f"{folder}/a.jsonl": session, f"{folder}/b.jsonl": fork})
    assert sums(audit) == (6, 1_001_934)
    # The cache was warmed for one dollar, the rest costs 5 dollars per million tokens.
    assert dollars(audit) == pytest.approx(1.0 + 1_934 * 5e-6)


def test_cache_writes_of_pi_are_priced_by_lifetime(home: Path) -> None:
    usage = pi_usage(0, cache_write=200_000, cacheWrite1h=100_000)
    answers = [pi_answer("1", usage), pi_answer("2", pi_usage(100_000), responseModel="gpt-5.1")]
    audit = audit_home(home, {".pi/agent/sessions/--demo--/a.jsonl": answers})
    assert dollars(audit) == pytest.approx(0.625 + 1.0 + 0.125)


def rollout(model: str, tokens: int, tier: str = "") -> dict[str, list[Json]]:
    lines = [*meta("a"), count(0, tokens, tokens)]
    lines[1]["payload"] = {"model": model, "service_tier": tier}
    return {f"{CODEX}/rollout-a.jsonl": lines}


def with_search(files: dict[str, list[Json]]) -> dict[str, list[Json]]:
    """Return Codex's files with a web search, and the page it opened, before the last record."""
    actions = [{"type": kind} for kind in ("search", "open_page")]
    items = [{"type": "web_search_call", "action": action} for action in actions]
    searches = [{"type": "response_item", "payload": item} for item in items]
    return {name: [*lines[:-1], *searches, lines[-1]] for name, lines in files.items()}


def session(model: str, tokens: int, **usage: Any) -> dict[str, list[Json]]:
    line = claude("m", "r", tokens, **usage)
    line["message"]["model"] = model
    return {f"{CLAUDE}/a.jsonl": [line]}


HOUR: Json = {
    "cache_creation_input_tokens": 100_000,
    "cache_creation": {"ephemeral_1h_input_tokens": 100_000},
}


@pytest.mark.parametrize(
    ("files", "cost"),
    [
        (session("claude-opus-4-6", 100_000, speed="fast"), 3.0),
        (session("claude-opus-4-6", 100_000, inference_geo="us"), 0.55),
        (session("claude-opus-4-6", 0, **HOUR), 1.0),
        (session("claude-opus-4-6", 0, server_tool_use={"web_search_requests": 3}), 0.03),
        (session("claude-opus-4-6", 100_000, speed="fast", server_tool_use={"web_search_requests": 1}), 3.01),
        (session("claude-opus-4-6", 300_000, **HOUR), 5.0),
        (session("claude-sonnet-4-5", 300_000), 1.8),
        (session("claude-sonnet-4-5", 200_000), 0.6),
        (rollout("gpt-5.1", 100_000, "priority"), 0.25),
        (rollout("gpt-5.1", 100_000, "fast"), 0.25),
        (rollout("gpt-5.1", 100_000, "auto"), 0.125),
        (rollout("gpt-5.4", 300_000), 1.5),
        (rollout("gpt-5.4", 300_000, "priority"), 3.0),
        (rollout("gpt-5.4", 100_000, "flex"), 0.125),
    ],
)  # fmt: skip
def test_each_rate_has_its_price(home: Path, files: dict[str, list[Json]], cost: float) -> None:
    assert dollars(audit_home(home, files)) == pytest.approx(cost)


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (session("claude-haiku-4-5", 9, server_tool_use={"web_search_requests": 2}), "claude-haiku-4-5 (2 web searches) is priced as claude-haiku-4-5."),
        (with_search(rollout("gpt-5.1", 9)), "gpt-5.1 (1 web search) is priced as gpt-5.1."),
        (rollout("gpt-5.1", 9, "flex"), "gpt-5.1 (flex) is priced as gpt-5.1."),
        (rollout("gpt-5.1", 9, "scale"), "gpt-5.1 (scale) is priced as gpt-5.1."),
    ],
)  # fmt: skip
def test_rate_without_price_is_named(
    home: Path, files: dict[str, list[Json]], sentence: str
) -> None:
    audit_home(home, files)
    assert sentence in " ".join(printed("audit", "--workers", "1").split())


def test_damaged_bytes_lose_no_usage(home: Path) -> None:
    good = [json.dumps(claude(f"m{number}", f"r{number}")).encode() for number in range(6)]
    good[1] = good[1].replace(b'"ok"', b'"o\xff\x01"')
    good[2] = b"\0\0\0" + good[2]
    good[3] = b'{"type": "assis' + good[3]
    good[4] += good[5]
    lines = b"\xef\xbb\xbf" + b"\r\n".join(good[:5]) + b'\n{"type": "assistant", "mess'
    write_files(home, {f"{CLAUDE}/a.jsonl": lines})
    write_store(
        home,
        f"{OPENCODE}/opencode.db",
        *STORE,
        opencode_row("msg_1", "ses_a", 1000, 30),
        "update message set data = cast(replace(data, '\"role\"', '\"x\": \"' || x'ff' || '\", "
        '"role"\') as text)',
    )
    audit = audit_home(home)
    assert sums(audit) == (7, 6_030)
    assert audit.counts["damaged lines"] == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_sessions_in_utf_16_are_read(home: Path, encoding: str) -> None:
    """A program that copies a session may write it in the encoding of Windows."""
    mark = "" if encoding in ("utf-8-sig", "utf-16") else "\ufeff"

    def encode_lines(*lines: Json) -> bytes:
        return (mark + "\r\n".join(map(json.dumps, lines))).encode(encoding)

    row = json.loads(opencode_row("msg_1", "ses_a", 1000, 30).split("'")[-2])
    files = {
        f"{CLAUDE}/a.jsonl": encode_lines(claude("m1", text="ö"), claude("m2")),
        f"{CODEX}/rollout-a.jsonl": encode_lines(*PARENT),
        f"{OPENCODE}/storage/message/ses_a/msg_1.json": encode_lines(row),
    }
    audit = audit_home(home, files)
    assert (sums(audit), audit.counts["damaged lines"]) == ((4, 3_030), 0)
    log = home / "log.jsonl"
    request = {"messages": [user("ö")]}
    log.write_bytes(encode_lines(request, {**request, "model": "m"}))
    read_files(log, audit_input := AuditInput())
    assert (audit_input.counts["lines"], audit_input.counts["damaged lines"]) == (2, 0)


def test_pi_forks_and_branches_count_once(home: Path) -> None:
    def event(id: str, parent: str, role: str, minute: int, tokens: int = 0) -> Json:
        usage = {"input": tokens, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        message: Json = {"role": role, "content": id, "model": "claude-opus-4-6"}
        if tokens:
            message["usage"] = usage
        line = {"type": "message", "id": id, "parentId": parent or None, "timestamp": at(minute)}
        return {**line, "message": message}

    first = [event("1", "", "user", 1), event("2", "1", "assistant", 2, 100)]
    main = [*first, event("3", "2", "user", 3), event("4", "3", "assistant", 4, 200)]
    restored_events = [event("5", "2", "user", 5), event("6", "5", "assistant", 6, 300)]
    fork = [*first, event("9", "2", "user", 7), event("8", "9", "assistant", 8, 1000)]
    sessions = ".pi/agent/sessions/--demo--"
    files = {f"{sessions}/a.jsonl": [*main, *restored_events], f"{sessions}/b.jsonl": fork}
    # OpenClaw writes the same events to files, also for sessions that were reset.
    files[".openclaw/agents/main/sessions/s.jsonl.reset.2026-11-01"] = [
        event("7", "", "assistant", 9, 5)
    ]
    audit = audit_home(home, files)
    assert sums(audit) == (5, 1605)
    texts = [[message["content"] for message in run.messages] for run in audit.runs]
    assert ["1", "2", "5", "6"] in texts and ["1", "2", "3", "4"] in texts


def test_unreadable_stores_are_named(home: Path) -> None:
    write_store(home, f"{OPENCODE}/opencode.db", "create table thread(id text)")
    write_files(home, {".hermes/profiles/work/state.db": "no database" * 99})
    alone = printed("audit", status=1)
    assert "there are no runs" in alone and "opencode.db" in alone and "work/state.db" in alone
    write_files(home, {f"{CLAUDE}/a.jsonl": [claude("m", "r")]})
    assert "opencode.db" in printed("audit", "--json", "--workers", "1")
