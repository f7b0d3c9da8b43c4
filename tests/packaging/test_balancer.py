"""`deploy/compose/balancer.conf` in a real nginx, in front of two real servers on one
PostgreSQL.
"""

import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from contextrender_bridge import ContextRender
from contextrender_bridge.client.credentials import load_credentials

from tests.server.servers import REPOSITORY, Server, running_server
from tests.support.postgres import new_database
from tests.support.programs import free_port, serving_program

CONF = REPOSITORY / "deploy" / "compose" / "balancer.conf"
NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
RENDERS = re.compile(r'contextrender_calls_total\{.*route="render",status="200"\} ([\d.]+)')
SECRET = "one for all servers, of 32 letters"
HISTORY = [{"role": "user", "content": "Why is checkout slow?"}]

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]


@dataclass
class Balanced:
    client: ContextRender
    servers: list[Server]

    def renders(self) -> list[int]:
        pages = [httpx.get(f"{server.url}/metrics").text for server in self.servers]
        return [sum(int(float(count)) for count in RENDERS.findall(page)) for page in pages]


@pytest.fixture
def balanced(postgres: str, tmp_path: Path) -> Iterator[Balanced]:
    database = new_database(postgres)
    with ExitStack() as stack:
        servers = []
        for name in ("server-1", "server-2"):
            data = tmp_path / name / "data"
            server = running_server(
                data, CONTEXTRENDER_DATABASE=database, CONTEXTRENDER_JWT_SECRET=SECRET
            )
            servers.append(stack.enter_context(server))
        url = stack.enter_context(_balancer(tmp_path / "nginx", servers))
        token = load_credentials(servers[0].data).token
        yield Balanced(stack.enter_context(ContextRender(url, token)), servers)


def test_session_stays_on_its_server_and_survives_it(balanced: Balanced) -> None:
    longer = [*HISTORY, {"role": "assistant", "content": "I will look."}]
    for number in range(12):
        before = balanced.renders()
        balanced.client.render(f"session-{number}", HISTORY)
        balanced.client.render(f"session-{number}", longer)
        new_renders = [
            count - count_before
            for count, count_before in zip(balanced.renders(), before, strict=True)
        ]
        assert sorted(new_renders) == [0, 2]
    assert all(balanced.renders())

    balanced.servers[0].stop(signal.SIGKILL)
    more = [*longer, {"role": "user", "content": "And?"}]
    for number in range(12):
        balanced.client.render(f"session-{number}", more)
        exported = balanced.client.export_session(f"session-{number}")["branches"]
        assert [branch["messages"] for branch in exported] == [more]


def test_metrics_are_not_public(balanced: Balanced) -> None:
    assert httpx.get(f"{balanced.client.url}/metrics").status_code == 404


@contextmanager
def _balancer(folder: Path, servers: list[Server]) -> Iterator[str]:
    """Run nginx with the repository's file and the tests' addresses; yield nginx's address."""
    port = free_port()
    text = CONF.read_text().replace("listen 80;", f"listen 127.0.0.1:{port};")
    for server in servers:
        text = text.replace(f"{server.data.parent.name}:8000", server.url.removeprefix("http://"))
    folder.mkdir()
    conf = folder / "nginx.conf"
    conf.write_text(
        f"daemon off;\npid {folder}/pid;\nerror_log {folder}/errors;\nevents {{}}\n"
        f"http {{\naccess_log off;\nclient_body_temp_path {folder}/body;\n"
        f"proxy_temp_path {folder}/proxy;\nfastcgi_temp_path {folder}/fastcgi;\n"
        f"uwsgi_temp_path {folder}/uwsgi;\nscgi_temp_path {folder}/scgi;\n{text}}}\n"
    )
    command = [NGINX, "-p", folder, "-e", folder / "errors", "-c", conf]
    url = f"http://127.0.0.1:{port}"
    with serving_program(command, {}, url, folder):
        yield url
