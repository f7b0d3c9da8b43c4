"""Which worker a request is for, told by its first bytes."""

import jwt
from contextrender_bridge.client.flow import Exchange
from contextrender_bridge.workers.preference import preferred

TOKENS = [jwt.encode({"sub": user, "exp": 1}, "s" * 32) for user in ("ann", "ann", "bob")]


def request(*lines: str, path: str = "/walker/render", body: str = "") -> bytes:
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *lines, "", body]).encode()


def test_path_header_and_field_name_the_same_session() -> None:
    wanted = preferred(request("X-Contextrender-Session: a%20%C3%A9"), 1 << 40)
    assert wanted is not None
    for other in (
        request(path="/s/a%20%c3%a9/v1/chat/completions"),
        request(path="/k/secret/s/a%20%C3%A9/v1/messages?x=1"),
        request("session-id: a%20é"),
        request(body='{"messages": [], "session": "a \\u00e9"}'),
        request(body='{"session":"a é", "mess'),
    ):
        assert preferred(other, 1 << 40) == wanted, other


def test_a_client_names_its_session() -> None:
    sent = Exchange("/walker/render", b"", session="a é/\r\nx").headers
    named = request(f"x-contextrender-session: {sent['x-contextrender-session']}")
    assert preferred(named, 1 << 40) == preferred(
        request(body='{"session": "a é/\\r\\nx"}'), 1 << 40
    )


def test_users_sessions_of_one_name_are_apart_whichever_token_each_has() -> None:
    ann, again, bob = (
        preferred(request(f"Authorization: Bearer {token}", "x-session-id: main"), 1 << 40)
        for token in TOKENS
    )
    assert ann == again != bob
    proxied = request(f"x-contextrender-token: {TOKENS[0]}", "x-session-id: main")
    assert preferred(proxied, 1 << 40) == ann


def test_what_names_no_session_is_for_any() -> None:
    for each in (
        b"POST /walker/render HTTP/1.1\r\nx-session-id: half a he",
        request(),
        request(body='{"session": 5}'),
        request(body='{"messages": [{"content": "\\"session\\": \\"x\\""}]}'),
        request("Authorization: Bearer a.b.c", body='{"session": "unfini'),
        b"\x00\xff\r\n\r\n",
    ):
        assert preferred(each, 7) is None, each


def test_tokens_that_are_none_do_no_harm() -> None:
    for token in ("a.b.c", "a.!!.c", "....", "x" * 9):
        assert preferred(request(f"Authorization: Bearer {token}", "session-id: s"), 7) is not None


def test_sessions_spread_over_all_workers() -> None:
    counts = [0] * 4
    for number in range(1000):
        counts[preferred(request(f"session-id: run-{number}"), 4) or 0] += 1
    assert min(counts) > 200
