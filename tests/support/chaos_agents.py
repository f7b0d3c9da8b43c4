"""Agents that load a server with every kind of write and record what it acknowledged.

Each agent has its own sessions. A request that was running when the server died happened completely
or not at all: the agent keeps both states until `settle` decides.
"""

import itertools
import random
import threading
from dataclasses import dataclass, field

import httpx
from contextrender_bridge.base.wire import Json

from tests.api.client import Api
from tests.support.transcripts import assistant, call, result, user

Lines = list[list[Json]]
"""The branches of a session by number, each with its full history."""

States = dict[str, Lines]
LONGEST = 18


@dataclass
class Agent:
    """A client; `acknowledged` has the acknowledged branches by session."""

    name: str
    random: random.Random
    acknowledged: States = field(default_factory=dict)
    under_way: States | None = None
    deleting: str = ""
    busy: int = 0
    answered: int = 0
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def work(self, api: Api, ended: threading.Event) -> None:
        while not ended.is_set():
            try:
                self._step(api)
            except httpx.TransportError:
                return
            self.answered += 1

    def settle(self, stored: States) -> None:
        """Accept the stored state, which must be one of the two possible states."""
        possible = [self.acknowledged, *([] if self.under_way is None else [self.under_way])]
        assert stored in possible, (self.name, shape(stored), [shape(state) for state in possible])
        self.acknowledged, self.under_way, self.deleting = stored, None, ""

    def _step(self, api: Api) -> None:
        kinds = [self._go_on] * 6 + [self._rewrite] * 2 + [self._recall] * 2
        full = [name for name, lines in self.acknowledged.items() if len(lines[0]) >= LONGEST]
        if len(self.acknowledged) > 3:
            self._delete(api, self.random.choice([*self.acknowledged]))
        elif full:
            self.random.choice([self._delete, self._copy])(api, full[0])
        elif not self.acknowledged:
            self._record(api, f"{self.name}-{next(self.numbers)}", [], 0)
        else:
            self.random.choice(kinds)(api, self.random.choice([*self.acknowledged]))

    def _go_on(self, api: Api, session: str) -> None:
        lines = self.acknowledged[session]
        self._record(api, session, lines, self.random.randrange(len(lines)))

    def _rewrite(self, api: Api, session: str) -> None:
        lines = self.acknowledged[session]
        past = lines[0][: self.random.randrange(1, len(lines[0]))]
        sentence = f"Once more, {self.name}_{next(self.numbers)}."
        self._send(api, session, [*lines, [*past, user(sentence)]], len(lines))

    def _record(self, api: Api, session: str, lines: Lines, at: int) -> None:
        line = [*lines[at], *self._turn(lines[at])] if lines else [user("Begin."), *self._turn([])]
        self._send(api, session, [*lines[:at], line, *lines[at + 1 :]], at)

    def _turn(self, before: list[Json]) -> list[Json]:
        """Return a step whose call uses an earlier result's value and whose result has new
        values."""
        number = next(self.numbers)
        contents = [message["content"] for message in before if message["role"] == "tool"]
        value = self.random.choice(contents).split()[0] if contents else "nothing"
        text = f"{self.name}_item_{number} REQ-{number}\\nclerk_{number % 7} " + "row " * 60
        calls = [call(f"c{number}", "look", f'{{"of": "{value}"}}')]
        if self.random.random() < 0.3:
            calls.append(call(f"d{number}", "unanswered", "{}"))
        return [assistant(f"I look at {value}.", *calls), result(f"c{number}", text)]

    def _send(self, api: Api, session: str, lines: Lines, at: int) -> None:
        fields: Json = {"session": session, "messages": lines[at]}
        walker = self.random.choice(["sync", "render"])
        if walker == "render":
            fields["budget"] = 200
        self._write(api, walker, fields, {**self.acknowledged, session: lines})

    def _copy(self, api: Api, session: str) -> None:
        data = api("export_session", session=session)
        copy = f"{self.name}-{next(self.numbers)}"
        after = {**self.acknowledged, copy: self.acknowledged[session]}
        self._write(api, "import_session", {"session": copy, "data": data}, after)
        self._delete(api, session)

    def _delete(self, api: Api, session: str) -> None:
        after = {name: lines for name, lines in self.acknowledged.items() if name != session}
        self.deleting = session
        self._write(api, "delete_session", {"session": session}, after)
        self.deleting = ""

    def _recall(self, api: Api, session: str) -> None:
        """Recall a result of the first branch by position and check that it is unchanged."""
        line = self.acknowledged[session][0]
        (position, *_) = [at for at, message in enumerate(line) if message["role"] == "tool"]
        (result,) = api("recall", session=session, results=[position], branch=0)["results"]
        assert result["message"]["content"] == line[position]["content"]

    def _write(self, api: Api, walker: str, fields: Json, after: States) -> None:
        """Send a write. If the store refuses it, keep the acknowledged state."""
        self.under_way = after
        reply = api.post(walker, **fields)
        if reply.status_code == 503 and reply.json()["error"]["code"] == "storage_unavailable":
            self.busy += 1
        else:
            assert reply.status_code == 200, (walker, reply.text)
            self.acknowledged = after
        self.under_way = None


def shape(states: States) -> dict[str, list[int]]:
    return {name: [len(line) for line in lines] for name, lines in states.items()}
