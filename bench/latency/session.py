"""One session as an agent runtime uses it: each call sends what is new."""

import json
from collections.abc import Callable

from contextrender_bridge.wire import Json
from sample import Sample
from times import Times

Post = Callable[[str, Json], bytes]
"""Calls a walker with its fields; the reply's body."""


class Session:
    """A run being recorded through `post`."""

    def __init__(self, post: Post, name: str, seed: int = 0) -> None:
        self.sample = Sample(seed)
        self.reply: Json = {}
        self._post = post
        self._name = name
        self._sent: list[Json] = []

    @property
    def messages(self) -> list[Json]:
        """All that was sent so far."""
        return self._sent

    def fill(self, results: int) -> Times:
        """Records a whole run in one request."""
        return self.call("sync", self.sample.run(results), Times())

    def call(self, walker: str, fresh: list[Json], times: Times) -> Times:
        """Sends the new messages to `render` or `sync`."""
        fields: Json = {"session": self._name, "messages": fresh}
        if self._sent:
            fields |= {"offset": len(self._sent), "prefix": self.reply["digest"]}
        body = times.measure(lambda: self._post(walker, fields))
        self.reply = json.loads(body)["reports"][0]
        self._sent += fresh
        return times

    def explain(self, times: Times) -> Times:
        """Asks why each result is shown or not."""
        times.measure(lambda: self._post("explain", {"session": self._name}))
        return times
