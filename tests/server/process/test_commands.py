"""Server commands with the real app."""

import os
import signal
import subprocess
from pathlib import Path

import httpx
import pytest

from tests.server.servers import BIN, REPOSITORY, running
from tests.support.command import contextrender

SERVE = {
    "contextrender": [str(BIN / "contextrender"), "serve", "--port", "0", "--data"],
    "jac": [str(BIN / "jac"), "serve", "--port", "0", "--data"],
}


def run(*command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / command[0]), *map(str, command[1:])],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=REPOSITORY,
        env={**os.environ, **environment},
    )


@pytest.mark.parametrize(
    ("name", "number"),
    [("contextrender", signal.SIGINT), pytest.param("jac", signal.SIGTERM, marks=pytest.mark.slow)],
)
def test_server_prints_address_and_stops_cleanly(
    data: Path, name: str, number: signal.Signals
) -> None:
    foreign = data.parent / "elsewhere"
    foreign.mkdir()
    (foreign / "jac.toml").write_text(
        '[project]\nname = "other"\n[plugins.scale.database]\nmongodb_uri = "mongodb://x"\n'
    )
    with running([*SERVE[name], str(data)], data, cwd=foreign) as server:
        assert server.out == f"ContextRender is ready at {server.url} (data in {data})\n"
        assert httpx.get(server.url + "/healthz").status_code == 200
        assert server.stop(number) == 0
        assert "Traceback" not in server.err
        assert {path.name for path in foreign.iterdir()} == {"jac.toml"}


@pytest.mark.slow
def test_used_port_is_an_error(data: Path) -> None:
    with running([*SERVE["contextrender"], str(data)], data) as server:
        port = server.url.rpartition(":")[2]
        for command in ("contextrender", "jac"):
            second = run(command, "serve", "--port", port, "--data", data)
            assert second.returncode == 1
            assert (
                f"runs already at {server.url}: `contextrender console` opens it" in second.stderr
            )
            second = run(command, "serve", "--port", port, "--data", data.with_name("other"))
            assert second.returncode == 1
            assert f"port {port} of 127.0.0.1 is in use" in second.stderr
            assert "--port" in second.stderr
        assert httpx.get(server.url + "/healthz").status_code == 200


def test_jac_start_points_to_jac_serve() -> None:
    for arguments in ([], ["contextrender.jac"]):
        started = run("jac", "start", *arguments)
        assert started.returncode == 2
        assert "use `jac serve`" in started.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "sentence"),
    [
        (["serve", "--port", "70000"], {}, "cannot listen on port 70000: ports go up to 65535."),
        (["serve", "--host", "not a host"], {}, "cannot listen"),
        (["serve", "--port", "0"], {"CONTEXTRENDER_MAX_BODY_MB": "many"}, "MAX_BODY_MB"),
        (["serve", "--port", "0"], {"CONTEXTRENDER_JWT_SECRET": "short"}, "32 bytes"),
        (["serve", "--workers", "2", "--idle-timeout", "5"], {}, "--idle-timeout"),
        (["user", "add", "a b"], {}, "letters"),
        (["user", "token", "nobody"], {}, "no user"),
        (["user", "add", "local"], {}, "already"),
    ],
)
def test_invalid_option_is_one_sentence(
    data: Path, arguments: list[str], environment: dict[str, str], sentence: str
) -> None:
    if sentence == "already":
        contextrender(*arguments, "--data", data)
    variables = {**os.environ, **environment}
    refused = contextrender(*arguments, "--data", data, environment=variables)
    assert refused.returncode == (2 if environment else 1)
    assert refused.stderr.startswith("contextrender: ")
    assert refused.stderr.count("\n") == 1
    assert sentence in refused.stderr
