"""What the benchmark starts: a model, the service, the proxy in its two places, LiteLLM's proxy."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from contextrender_bridge import load_credentials

HERE = Path(__file__).resolve().parent
SECONDS = 90.0
RUN = "import sys; from contextrender_bridge.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Way:
    """A way to the model, and the processes between."""

    name: str
    url: str
    headers: dict[str, str] = field(default_factory=dict)
    processes: tuple[int, ...] = ()

    def cpu_seconds(self) -> float:
        """Processor time that its processes have used; 0 where there is no /proc."""
        return sum(cpu_seconds(pid) for pid in self.processes)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def process(command: list[str], url: str, **environment: str) -> Iterator[int]:
    """Runs a server until the block ends, from the moment it answers anything; its id."""
    with tempfile.TemporaryFile() as output:
        running = subprocess.Popen(
            command, env={**os.environ, **environment}, stdout=output, stderr=output
        )
        try:
            until = time.monotonic() + SECONDS
            while not answers(url):
                if running.poll() is not None or time.monotonic() > until:
                    output.seek(0)
                    raise RuntimeError(output.read()[-2000:].decode(errors="replace"))
                time.sleep(0.1)
            yield running.pid
        finally:
            running.terminate()
            running.wait()


def answers(url: str) -> bool:
    try:
        httpx.get(url, timeout=1.0, trust_env=False)
    except httpx.TransportError:
        return False
    return True


def find_litellm() -> str | None:
    """LiteLLM's proxy, in a virtual environment of its own: BENCH_LITELLM names its `litellm`."""
    return shutil.which(os.environ.get("BENCH_LITELLM", ""))


@contextmanager
def ways() -> Iterator[list[Way]]:
    """Every way to the model, the direct one first."""
    with ExitStack() as running:
        model = f"http://127.0.0.1:{free_port()}"
        script = str(HERE / "model.py")
        port = model.rsplit(":", 1)[1]
        running.enter_context(process([sys.executable, script, port], model))
        data = running.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True))
        port = str(free_port())
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", RUN, "serve", "--port", port, "--data", data]
        patient = {"CONTEXTRENDER_DEADLINE": "60"}
        environment = {"CONTEXTRENDER_UPSTREAM": f"{model}/v1", **patient}
        service = running.enter_context(process(command, f"{url}/healthz", **environment))
        token = load_credentials(Path(data)).token
        named = {"x-contextrender-token": token}
        found = [Way("direct", model), Way("in jac serve", url, named, (service,))]
        known = {"CONTEXTRENDER_URL": url, "CONTEXTRENDER_TOKEN": token, **patient}
        port = str(free_port())
        url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-c", RUN, "proxy", "--port", port, "--upstream", f"{model}/v1"]
        proxy = running.enter_context(process(command, url, **known))
        found.append(Way("proxy", url, {}, (proxy, service)))
        found.append(Way("proxy, bypass", url, {"x-contextrender-mode": "bypass"}, (proxy,)))
        if litellm := find_litellm():
            port = str(free_port())
            url = f"http://127.0.0.1:{port}"
            config = Path(running.enter_context(tempfile.TemporaryDirectory())) / "config.yaml"
            params = {"model": "openai/m", "api_base": f"{model}/v1", "api_key": "sk-x"}
            config.write_text(
                json.dumps({"model_list": [{"model_name": "m", "litellm_params": params}]})
            )
            command = [litellm, "--config", str(config), "--port", port, "--host", "127.0.0.1"]
            offline = {
                "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
                "PYTHONPATH": "",
            }
            gateway = running.enter_context(process(command, f"{url}/health/liveliness", **offline))
            found.append(Way("LiteLLM", url, {}, (gateway,)))
        yield found
