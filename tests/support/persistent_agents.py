"""Agents that record on through failures, and a look at what became of their words."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

from contextrender_bridge import ContextRender
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.credentials import load_credentials

from tests.server.servers import Server
from tests.support.waiting import until

AGENTS = 4
MORE = 5
"""Messages of each agent that are acknowledged each time they are to go on."""


class Agent:
    """Records its history message by message, again where that failed, until it is told to stop."""

    def __init__(self, server: Server, session: str) -> None:
        self.session = session
        self.acknowledged: list[Json] = []
        self.client = ContextRender(server.url, load_credentials(server.data).token, retries=0)

    def run(self, ended: threading.Event, forgiven: int) -> None:
        while not ended.is_set():
            try:
                self.go_on()
            except ContextRenderError as failed:
                assert failed.status == forgiven, failed
                time.sleep(0.05)

    def go_on(self) -> None:
        """One message more. Raises ContextRenderError."""
        number = len(self.acknowledged)
        role = "assistant" if number % 2 else "user"
        history = [*self.acknowledged, {"role": role, "content": f"message {number}"}]
        self.client.sync(self.session, history)
        self.acknowledged = history

    def stored(self) -> list[Json]:
        (branch,) = self.client.export_session(self.session)["branches"]
        return branch["messages"]


@contextmanager
def agents_at_work(server: Server, forgiven: int = 503) -> Iterator[Callable[[], None]]:
    """Some agents of a server, and what waits until each has had more messages acknowledged.

    They go on after failures of that status, 0 where nobody answers. At the end nothing that was
    acknowledged may be lost.
    """
    ended = threading.Event()
    with ExitStack() as opened, ThreadPoolExecutor(AGENTS) as threads:
        agents = [Agent(server, f"session-{number}") for number in range(AGENTS)]
        for agent in agents:
            opened.enter_context(agent.client)
        runs = [threads.submit(agent.run, ended, forgiven) for agent in agents]

        def go_on() -> None:
            goals = [len(agent.acknowledged) + MORE for agent in agents]

            def reached() -> bool:
                for run in runs:
                    if run.done():
                        run.result()
                counts = [len(agent.acknowledged) for agent in agents]
                return all(count >= goal for count, goal in zip(counts, goals, strict=True))

            until(reached)

        try:
            yield go_on
        finally:
            ended.set()
        for run in runs:
            run.result()
        for agent in agents:
            assert agent.stored()[: len(agent.acknowledged)] == agent.acknowledged
