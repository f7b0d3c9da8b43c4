"""What a first picture of a session, and of a late call, costs the server: `python
bench/console/cold.py [RESULTS]`.

Cold, with nothing in memory: the newest calls told from the last events (`glimpse`) beside those
told from the whole session (`timeline`), and one call likewise (`glimpse_call`, `show_call`). Warm:
a page of a call's results and messages beside all of them. Processor time, bytes and the ratio of
each pair, in one run. And late calls by the policies that track texts, one after another. In
process, over SQLite.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "py_bridge")]

from contextrender_bridge.paths import app_dir, make_private  # noqa: E402
from contextrender_bridge.server.accounts import LOCAL_USER, Accounts  # noqa: E402
from contextrender_bridge.server.runtime import Runtime  # noqa: E402
from contextrender_bridge.server.serving import warm_up  # noqa: E402

from engine.policies import POLICIES, tracks_texts  # noqa: E402
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
        last = json.loads(self("glimpse", session=SESSION))["reports"][0]["last"]
        page: dict[str, Any] = {"rows": 120, "sort": "order", "window": 150}
        print("A late call, cold")
        early = self.told("glimpse_call", turn=last - 100)
        whole = self.told("show_call", turn=last - 100, **page)
        print(f"  ratio {whole / early:.0f}")
        limit_caches(2**30)
        print("Another late call, warm: a page, and all of it")
        some = self.told("show_call", turns=range(last - 99, last), cold=False, **page)
        every = self.told("show_call", turns=range(last - 90, last), cold=False)
        print(f"  ratio {every / some:.0f}")
        for policy in filter(tracks_texts, POLICIES):
            self.follow(last, {**page, "policy": policy})

    def follow(self, last: int, fields: dict[str, Any]) -> None:
        """Late calls by a policy that tracks texts: the first one reads them, the next do not."""
        print(f"Late calls by {fields['policy']}, the session read: the first, and those after it")
        limit_caches(0)
        for look in ("inspect_session", "timeline"):
            self(look, session=OTHER)
        limit_caches(2**30)
        self("timeline", session=SESSION, limit=1)
        begun = time.process_time()
        self("show_call", session=SESSION, turn=last - 80, **fields)
        first = time.process_time() - begun
        print(f"  {'show_call':<10} {1000 * first:>8,.0f} ms")
        rest = self.told("show_call", turns=range(last - 79, last), cold=False, **fields)
        print(f"  ratio {first / rest:.0f}")

    def told(
        self, walker: str, turns: Iterable[int] = (), *, cold: bool = True, **fields: Any
    ) -> float:
        """Seconds of the processor's that a call takes, each of another of these turns."""
        seconds, size, wanted = [], 0, iter(turns)
        if not cold:
            self(walker, session=SESSION, **fields)
        for _ in range(ROUNDS):
            if cold:
                limit_caches(0)
                for look in ("inspect_session", "timeline"):  # the last one looked at is kept
                    self(look, session=OTHER)
            if turns:
                fields["turn"] = next(wanted)
            begun = time.process_time()
            size = len(self(walker, session=SESSION, **fields))
            seconds.append(time.process_time() - begun)
        median = statistics.median(seconds)
        print(f"  {walker:<10} {1000 * median:>8,.0f} ms {size:>10,}")
        return median


if __name__ == "__main__":
    main()
