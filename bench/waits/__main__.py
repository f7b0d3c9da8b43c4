"""What others see while 40 renders wait for an embedder that does not answer.

    python bench/waits [--seconds 3] [--rounds 6] [--json FILE]

Renders that embed nothing and plain reads, one after the other, for so many seconds with and
without those 40; in turns, so that the machine's moods hit both alike. The embedder is a double in
this process. It takes two minutes. The exit code is 1 when a goal is not met: p99 within 3 times
that without, and every answer good.
"""

import argparse
import asyncio
import json
import statistics
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "bench" / "load")]
from agents import BUDGET, Wire  # noqa: E402
from sample import Sample  # noqa: E402
from service import Service, running  # noqa: E402

from tests.support.provider_double import embedding_reply, provider  # noqa: E402

Json = dict[str, Any]

WAITING = 40
ASKED_AT_ONCE = 32
"""`CONTEXTRENDER_PROVIDER_THREADS`: the others wait for one of these."""
BEGUN_WITH = 50
MOST_SLOWER = 3.0
PATIENCE = 60.0
MOST_SECONDS = 5.0
"""Of a part: after 10 the service asks an embedder that does not answer again."""


class Embedder:
    """Answers nothing while it is closed."""

    def __init__(self) -> None:
        self.come = threading.Semaphore(0)
        self.opened = threading.Event()
        self.opened.set()

    def answer(self, body: Json) -> tuple[int, Any]:
        self.come.release()
        self.opened.wait(PATIENCE)
        return 200, embedding_reply([[1.0, 0.5] for _ in body["input"]])

    def waited_for(self) -> None:
        for _ in range(ASKED_AT_ONCE):
            assert self.come.acquire(timeout=PATIENCE)


class Caller:
    """One session that grows by a call and a result of 2 KB with each render."""

    def __init__(self, service: Service, name: str, seed: int, policy: str) -> None:
        self._wire = Wire(service.url, service.token)
        self._name, self._policy = name, policy
        self._sample = Sample(seed)
        self._fresh = self._sample.run(BEGUN_WITH)
        self._known: Json = {"offset": 0, "prefix": ""}

    async def render(self) -> float:
        """Seconds that the next one took."""
        fields = {"session": self._name, "messages": self._fresh, **self._known}
        settings = {"want": "plan", "budget": BUDGET, "policy": self._policy}
        took, (report,) = await self._ask("render", {**fields, **settings})
        assert report["warnings"] == [], report["warnings"]
        self._known = {"offset": report["offset"], "prefix": report["digest"]}
        self._fresh = self._sample.turn()
        return took

    async def read(self, walker: str) -> float:
        """Seconds that a read took."""
        fields = {"session": self._name} if walker != "list_sessions" else {}
        return (await self._ask(walker, fields))[0]

    def connect_anew(self) -> None:
        """A connection that rests for long is closed by the service."""
        self._wire.close()

    async def _ask(self, walker: str, fields: Json) -> tuple[float, list[Json]]:
        body = json.dumps(fields).encode()
        begun = time.perf_counter()
        status, answer = await self._wire.post(walker, body, self._name)
        took = time.perf_counter() - begun
        assert status == 200, answer[:200]
        return took, json.loads(answer)["reports"]


async def measured(service: Service, embedder: Embedder, seconds: float, rounds: int) -> Json:
    waiting = [Caller(service, f"waiting-{n}", n, "contextrender") for n in range(WAITING)]
    going_on = Caller(service, "going-on", WAITING, "contextrender_frozen")
    for caller in (*waiting, going_on):
        await caller.render()
    taken: dict[str, tuple[list[float], list[float]]] = {"render": ([], []), "reads": ([], [])}

    async def go_on(beside: bool) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            taken["render"][beside].append(await going_on.render())
            for walker in ("list_sessions", "inspect_session"):
                taken["reads"][beside].append(await going_on.read(walker))

    await go_on(False)
    for times in taken.values():
        times[0].clear()
    for _ in range(rounds):
        await go_on(False)
        while embedder.come.acquire(blocking=False):
            pass
        embedder.opened.clear()
        for caller in waiting:
            caller.connect_anew()
        asked = [asyncio.ensure_future(caller.render()) for caller in waiting]
        await asyncio.to_thread(embedder.waited_for)
        await go_on(True)
        assert not any(one.done() for one in asked)
        embedder.opened.set()
        await asyncio.gather(*asked)
    return {
        name: {
            "calls": len(alone) + len(beside),
            "alone_ms": p99(alone),
            "beside_ms": p99(beside),
            "slower": p99(beside) / p99(alone),
        }
        for name, (alone, beside) in taken.items()
    }


def p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[98] * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0, help="of a part (%(default)s)")
    parser.add_argument("--rounds", type=int, default=6, help="of two parts (%(default)s)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if not 0 < arguments.seconds <= MOST_SECONDS:
        parser.error(f"a part has up to {MOST_SECONDS:.0f} seconds")
    embedder = Embedder()
    with provider(embedder.answer) as double:
        known = {"OPENAI_API_BASE": double.url, "OPENAI_API_KEY": "scripted"}
        with running(CONTEXTRENDER_EMBED_MODEL="openai/scripted", **known) as service:
            work = measured(service, embedder, arguments.seconds, arguments.rounds)
            report = asyncio.run(work)
    print(f"p99 while {WAITING} calls wait for an embedder")
    for name, row in report.items():
        print(
            f"{name:8}{row['alone_ms']:8.1f} ms alone{row['beside_ms']:8.1f} ms beside them"
            f"{row['slower']:7.2f} x of {row['calls']} calls"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    missed = [
        f"{name}: p99 is {row['slower']:.1f} x, goal {MOST_SLOWER:.0f}"
        for name, row in report.items()
        if row["slower"] > MOST_SLOWER
    ]
    print("\n".join(f"MISSED   {sentence}" for sentence in missed) or "All goals are met.")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
