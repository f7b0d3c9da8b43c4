"""Memory of the proxy after large requests."""

import os
from contextlib import nullcontext
from pathlib import Path

import pytest
from contextrender_bridge.client.credentials import load_credentials

from tests.server.servers import BIN, running_server
from tests.support.process_memory import check_release_after_calls, children
from tests.support.programs import free_port, serving_program
from tests.support.scripted_model import Model, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not say"),
]


@pytest.mark.parametrize(
    ("has_service", "paths"),
    [(True, ["/compact", "/compress", "/chat/completions"]), (False, ["/chat/completions"])],
)
def test_memory_of_large_body_is_released_by_the_proxy(
    tmp_path: Path, has_service: bool, paths: list[str]
) -> None:
    port, model = free_port(), Model()
    place = f"http://127.0.0.1:{port}"
    data = tmp_path / "data"
    with (
        running_server(data) if has_service else nullcontext() as server,
        serving(model, lifespan="off") as provider,
    ):
        environment = {
            **os.environ,
            "CONTEXTRENDER_DATA": str(data),
            "CONTEXTRENDER_URL": server.url if server else "http://127.0.0.1:9",
            "CONTEXTRENDER_TOKEN": load_credentials(data).token if server else "none",
            "CONTEXTRENDER_UPSTREAM": f"{provider}/v1",
        }
        command = [BIN / "contextrender", "proxy", "--port", port]
        probe = f"{place}/contextrender/status"
        with serving_program(command, environment, probe, tmp_path) as process:
            (worker,) = children(process.pid)
            check_release_after_calls(worker, f"{place}/v1", paths)
