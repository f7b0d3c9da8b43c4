"""Agents that keep recording through failures, and a check that nothing acknowledged is lost."""

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
from tests.support.waiting import wait_until

AGENTS = 4
MORE = 5
"""The number of messages of each agent that must be acknowledged per `go_on`."""


class Agent:
    """An agent that records its history message by message and retries after failures."""

    def __init__(self, server: Server, session: str) -> None:
        self.session = session
        self.acknowledged: list[Json] = []
        self.client = ContextRender(server.url, load_credentials(server.data).token, retries=0)

    def run(self, ended: threading.Event, forgiven: int) -> None:
        while not ended.is_set():
            try:
                self.go_on()
            except ContextRenderError as error:
                assert error.status == forgiven, error
                time.sleep(0.05)

    def go_on(self) -> None:
        """Record one more message. Raise ContextRenderError."""
        number = len(self.acknowledged)
        role = "assistant" if number % 2 else "user"
        history = [*self.acknowledged, {"role": role, "content": f"message {number}"}]
        self.client.sync(self.session, history)
        self.acknowledged = history

    def stored_messages(self) -> list[Json]:
        (branch,) = self.client.export_session(self.session)["branches"]
        return branch["messages"]


@contextmanager
def agents_at_work(server: Server, forgiven: int = 503) -> Iterator[Callable[[], None]]:
    """Run agents on a server; yield a function that waits until each has more messages
    acknowledged.

    They retry after failures with the status `forgiven`, or 0 if there is no answer. At the end,
    check that nothing acknowledged is lost.
    """
    ended = threading.Event()
    with ExitStack() as opened, ThreadPoolExecutor(AGENTS) as threads:
        agents = [Agent(server, f"session-{number}") for number in range(AGENTS)]
        for agent in agents:
            opened.enter_context(agent.client)
        runs = [threads.submit(agent.run, ended, forgiven) for agent in agents]

        def go_on() -> None:
            goals = [len(agent.acknowledged) + MORE for agent in agents]

            def goals_are_reached() -> bool:
                for run in runs:
                    if run.done():
                        run.result()
                counts = [len(agent.acknowledged) for agent in agents]
                return all(count >= goal for count, goal in zip(counts, goals, strict=True))

            wait_until(goals_are_reached)

        try:
            yield go_on
        finally:
            ended.set()
        for run in runs:
            run.result()
        for agent in agents:
            assert agent.stored_messages()[: len(agent.acknowledged)] == agent.acknowledged
