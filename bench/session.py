"""One session as an agent runtime uses it: each call sends what is new."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from contextrender_bridge.base.wire import Json

from bench.figures import Times
from bench.sample import Sample
from bench.services import Service, inside

Post = Callable[[str, Json], bytes]
"""Calls a walker with its fields; the reply's body."""


class Session:
    """A run being recorded through `post`."""

    def __init__(self, post: Post, name: str, seed: int = 0) -> None:
        self.sample = Sample(seed)
        self._reply: Json = {}
        self._post = post
        self._name = name

    def fill(self, results: int) -> None:
        """Records a whole run in one request."""
        self.call("sync", self.sample.run(results), Times())

    def call(self, walker: str, fresh: list[Json], times: Times) -> None:
        """Sends the new messages to `render` or `sync`."""
        fields: Json = {"session": self._name, "messages": fresh}
        if self._reply:
            fields |= {"offset": self._reply["offset"], "prefix": self._reply["digest"]}
        body = times.measure(lambda: self._post(walker, fields))
        self._reply = json.loads(body)["reports"][0]


@contextmanager
def in_process(data: Path) -> Iterator[Post]:
    """Walkers over a new database, warmed up like a server."""
    with inside(data) as service:
        root = service.accounts.caller(service.accounts.local_token()).root
        yield lambda walker, fields: service.runtime.call(walker, lambda: fields, root)


@contextmanager
def over_http(service: Service) -> Iterator[Post]:
    """The same by one kept-alive connection."""
    headers = {"Authorization": f"Bearer {service.token}"}
    with httpx.Client(base_url=service.url, headers=headers, timeout=120, trust_env=False) as http:
        yield (
            lambda walker, fields: (
                http.post(f"/walker/{walker}", json=fields).raise_for_status().content
            )
        )
