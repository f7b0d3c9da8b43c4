"""Limits before authentication: time, sizes, connections and bodies in memory."""

import json
import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.listening import http_config
from contextrender_bridge.request_guards import (
    MAX_HEADER_BYTES,
    PAUSE_SECONDS,
    BodyLimits,
    Guard,
    guarded_protocol,
)
from contextrender_bridge.server.limits.counting import network_of
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.server.http.test_replies import error
from tests.server.servers import REPOSITORY, Server
from tests.support.scripted_model import serving
from tests.support.waiting import wait_until


async def count_bytes(request: Request) -> Response:
    return Response(str(len(await request.body())))


def app(silence: float = 30.0, **limits: Any) -> Any:
    bodies = BodyLimits(Settings(max_body_mb=1, **limits), {}, silence)

    def limit_bodies(routes: Any) -> Guard:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            with bodies.reading(scope, receive) as limited_receive:
                await routes(scope, limited_receive, send)

        return Guard(answer)

    return Starlette(
        routes=[Route("/", count_bytes, methods=["GET", "POST"])],
        middleware=[Middleware(limit_bodies)],
    )


@contextmanager
def listening(
    max_connections: int = 100, header_timeout: float = 60, idle: float = 60, **limits: Any
) -> Iterator[int]:
    http = guarded_protocol(max_connections, header_timeout)
    with serving(app(**limits), http=http, timeout_keep_alive=idle) as url:
        yield urlsplit(url).port or 0


def read_all(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    return b"".join(iter(lambda: connection.recv(4096), b""))


def read_answer(connection: socket.socket) -> bytes:
    connection.settimeout(30)
    answer = b""
    while not answer.endswith(b"}}"):
        part = connection.recv(4096)
        assert part, answer
        answer += part
    return answer


def code(answer: bytes) -> tuple[int, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]["code"]


@pytest.mark.parametrize("first_bytes", [b"", b"GET / HTTP/1.1\r\nhost: localhost\r\nx-slow: "])
def test_slow_headers_time_out(first_bytes: bytes) -> None:
    with (
        listening(header_timeout=0.2) as port,
        socket.create_connection(("127.0.0.1", port)) as slow,
    ):
        slow.sendall(first_bytes)
        assert code(read_all(slow)) == (408, "request_timeout")


@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"])
@pytest.mark.parametrize("lines", [1, 1_000])
def test_large_headers_are_refused(lines: int, end: bytes) -> None:
    head = b"\r\n".join(b"x-%d: %s" % (line, b"a" * (100_000 // lines)) for line in range(lines))
    with listening() as port, socket.create_connection(("127.0.0.1", port)) as large:
        large.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n" + head + end)
        assert code(read_all(large)) == (431, "headers_too_large")


def test_idle_connection_is_closed() -> None:
    with listening(idle=0.2) as port, socket.create_connection(("127.0.0.1", port)) as idle:
        idle.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert read_all(idle).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("limit", ["silence", "body_timeout"])
def test_slow_body_times_out(limit: str) -> None:
    limits: Any = {limit: 0.2}
    with listening(**limits) as port, socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 90\r\n\r\nhalf")
        assert code(read_answer(slow)) == (408, "request_timeout")


def test_bodies_of_all_users_are_limited() -> None:
    """Before authentication each address counts as a user. All bodies may total four times the
    limit."""
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048576\r\n\r\n"
    with listening() as port, ExitStack() as stack:
        connections = []
        for number in range(2, 7):
            source = (f"127.0.0.{number}", 0)
            connection = socket.create_connection(("127.0.0.1", port), source_address=source)
            connections.append(stack.enter_context(connection))
            connection.sendall(head + b"x" * 900_000)
        ready, _, _ = select.select(connections, [], [], 30)
        assert [code(read_answer(connection)) for connection in ready] == [
            (503, "too_many_bytes_in_flight")
        ]


def test_bodies_in_memory_are_limited_together() -> None:
    """One user's bodies may total two times the body limit; closed connections free theirs."""
    head = b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1048576\r\n\r\n"
    with listening() as port:
        connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        for connection in connections:
            connection.sendall(head + b"x" * 900_000)
        ready, _, _ = select.select(connections, [], [], 30)
        assert code(read_answer(ready[0])) == (503, "too_many_bytes_in_flight")
        for connection in connections:
            connection.close()
        body = b"x" * 2**20
        wait_until(lambda: httpx.post(f"http://127.0.0.1:{port}/", content=body).text == "1048576")


@pytest.mark.parametrize(
    ("request_line", "error_code"),
    [
        (b"http://elsewhere/ HTTP/1.1\r\nhost: localhost", "unknown_host"),
        (b"http://elsewhere/ HTTP/1.1", "unknown_host"),
        (b"/x?y#z HTTP/1.1\r\nhost: localhost", "invalid_path"),
        (b"http://LOCALHOST/ HTTP/1.1\r\nhost: localhost\r\nconnection: close", ""),
    ],
)
def test_foreign_host_in_request_line_is_refused(request_line: bytes, error_code: str) -> None:
    with listening() as port, socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"GET " + request_line + b"\r\n\r\n")
        answer = read_all(connection)
        assert (
            code(answer) == (400, error_code) if error_code else answer.startswith(b"HTTP/1.1 200")
        )


def test_two_host_headers_are_refused(server: Server) -> None:
    place = urlsplit(server.url)
    with socket.create_connection((place.hostname, place.port)) as connection:
        lines = f"host: {place.netloc}\r\nhost: elsewhere\r\nconnection: close\r\n\r\n"
        connection.sendall(f"GET /healthz HTTP/1.1\r\n{lines}".encode())
        assert code(read_all(connection)) == (400, "several_hosts")


def test_connection_above_limit_gets_429() -> None:
    with listening(max_connections=2) as port:
        connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(2)]
        for connection in connections:  # after one round trip each connection is counted
            connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        with socket.create_connection(("127.0.0.1", port)) as third:
            assert code(read_all(third)) == (429, "too_many_connections")
        connections.pop().close()
        while True:  # until the server has noticed
            with socket.create_connection(("127.0.0.1", port)) as fourth:
                fourth.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                try:
                    if read_all(fourth).startswith(b"HTTP/1.1 200"):
                        break
                except ConnectionError:
                    pass
        connections.pop().close()


def test_document_names_the_limits_without_settings() -> None:
    page = (REPOSITORY / "docs" / "operations.md").read_text()
    kilobytes = MAX_HEADER_BYTES // 1024
    assert f"A request's headers have at most {kilobytes} KB" in page
    assert f"pauses for {PAUSE_SECONDS:g} seconds, the answer is 408" in page
    assert f"idle for {http_config(None).timeout_keep_alive} seconds" in page


def test_large_login_is_refused(server: Server) -> None:
    body = json.dumps({"username": "local", "password": "x" * 5000})
    reply = httpx.post(server.url + "/user/login", content=body)
    error_fields = error(reply, 413, "body_too_large")
    assert error_fields["message"] == "A body may have up to 4096 bytes."


def test_messages_per_request_are_limited(client: httpx.Client) -> None:
    reply = client.post("/walker/echo", json={"messages": [{}] * 20_001})
    error(reply, 413, "too_many_messages")
    assert client.post("/walker/echo", json={"messages": [{}] * 20_000}).status_code == 200


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("10.0.0.7", "10.0.0.7"),
    ],
)
def test_failed_logins_count_by_network_in_ipv6(address: str, network: str) -> None:
    assert network_of(address) == network
