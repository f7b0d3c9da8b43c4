"""What a first picture of a session costs the server, of which nothing is in memory:
`python bench/console/cold.py [RESULTS]`.

The newest calls told from the last events (`glimpse`) beside those told from the whole session
(`timeline`), in the same run: processor time, bytes and the ratio. In process, over SQLite.
"""

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "py_bridge")]

from contextrender_bridge.paths import app_dir, make_private  # noqa: E402
from contextrender_bridge.server.accounts import LOCAL_USER, Accounts  # noqa: E402
from contextrender_bridge.server.runtime import Runtime  # noqa: E402
from contextrender_bridge.server.serving import warm_up  # noqa: E402

from graph.runtime.caches import limit_caches  # noqa: E402
from tests.console.transcripts import make_run  # noqa: E402

SESSION, OTHER = "bench", "another"
ROUNDS = 5


def main() -> None:
    results = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        data = make_private(Path(folder) / "data")
        runtime = Runtime(app_dir(), data)
        accounts = Accounts(runtime, data)
        try:
            accounts.local_token()
            bench = Bench(runtime, accounts.named(LOCAL_USER).root)
            warm_up()
            bench.record(make_run(results))
            bench.compare(results)
        finally:
            accounts.close()
            runtime.close()


class Bench:
    """One user's calls of walkers."""

    def __init__(self, runtime: Runtime, root: str) -> None:
        self.runtime = runtime
        self.root = root

    def __call__(self, walker: str, **fields: Any) -> bytes:
        return self.runtime.call(walker, lambda: dict(fields), self.root)

    def record(self, messages: list[Any]) -> None:
        """As an agent would, by the policy that is quickest to follow."""
        offset, digest = 0, ""
        for position, message in enumerate(messages):
            if message["role"] == "assistant":
                asked = {"messages": messages[offset:position], "offset": offset, "prefix": digest}
                view = json.loads(
                    self("render", session=SESSION, **asked, policy="prune", want="plan")
                )["reports"][0]
                offset, digest = view["offset"], view["digest"]
        self("sync", session=SESSION, messages=messages[offset:], offset=offset, prefix=digest)

    def compare(self, results: int) -> None:
        """Prints both, each the median of a few cold calls."""
        print(f"The newest 60 calls of {results} results, cold: processor time, bytes")
        self("sync", session=OTHER, messages=make_run(2))
        early = self.told("glimpse", limit=60)
        whole = self.told("timeline", start=-59, limit=60)
        print(f"  ratio {whole / early:.0f}")

    def told(self, walker: str, **fields: Any) -> float:
        """Seconds of the processor's that a cold call takes."""
        seconds, size = [], 0
        for _ in range(ROUNDS):
            limit_caches(0)
            for look in ("inspect_session", "timeline"):  # the last one looked at is kept
                self(look, session=OTHER)
            begun = time.process_time()
            size = len(self(walker, session=SESSION, **fields))
            seconds.append(time.process_time() - begun)
        median = statistics.median(seconds)
        print(f"  {walker:<10} {1000 * median:>8,.0f} ms {size:>10,}")
        return median


if __name__ == "__main__":
    main()
