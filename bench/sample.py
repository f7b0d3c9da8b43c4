"""A synthetic run like an agent's, of any length, and always the same.

Results have 2,000 characters of log lines, records, tables or prose. Later calls use identifiers
from results: mostly recent ones, some old ones, and one during the whole run.
"""

import json
import random
from typing import Final

from contextrender_bridge.base.wire import Json

RESULT_CHARACTERS: Final = 2_000
SILENT_EVERY: Final = 40
RECENT: Final = 60

_LEVELS = ("INFO", "WARN", "ERROR")
_SERVICES = ("checkout", "payments", "inventory", "gateway", "ledger", "search")
_STATES = ("pending", "shipped", "refunded", "failed", "settled")
_REASONS = (
    "upstream timed out after",
    "connection pool exhausted, waited",
    "retrying the write, slept",
    "cache miss, read from the replica in",
)
_PROSE = (
    "When a deployment fails its canary, traffic goes back to the previous release by itself.",
    "The on-call engineer confirms the error budget before anything is rolled forward again.",
    "Replicas may lag for a few seconds under bulk imports; reads then fall back to the primary.",
    "A refund is final once the ledger has settled it, and cannot be reversed from here.",
)


class Sample:
    """A run that grows turn by turn: an assistant message with a call, then its result."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._turn = 0
        self._customer = self._hex("cus_")
        self._identifiers = [self._customer]

    def opening(self) -> list[Json]:
        """Return the system prompt and the task."""
        task = (
            f"Orders of customer {self._customer} fail at checkout since this morning. Find out "
            "why, say which orders are affected, and what to do about it."
        )
        system = "You are an operations agent. Look things up before you answer."
        return [{"role": "system", "content": system}, {"role": "user", "content": task}]

    def turn(self) -> list[Json]:
        """Return the next assistant message and the result of its call."""
        self._turn += 1
        arguments = {
            "query": self._used_identifier(),
            "related": self._used_identifier(),
            "limit": 20,
        }
        sentence = (
            f"{arguments['query']} looks relevant: checking {arguments['related']} against it."
        )
        body = {"name": "lookup", "arguments": json.dumps(arguments)}
        call = {"id": f"call_{self._turn}", "type": "function", "function": body}
        text = None if self._turn % SILENT_EVERY else sentence
        return [
            {"role": "assistant", "content": text, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": self._result()},
        ]

    def run(self, results: int) -> list[Json]:
        """Return the opening and the next turns."""
        return self.opening() + [message for _ in range(results) for message in self.turn()]

    def _used_identifier(self) -> str:
        chance = self._random.random()
        if chance < 0.15:
            return self._customer
        return self._random.choice(
            self._identifiers if chance < 0.4 else self._identifiers[-RECENT:]
        )

    def _result(self) -> str:
        make = self._random.choice((self._log_line, self._log_line, self._record, self._row))
        lines = [f"lookup {self._turn}: {self._random.choice(_PROSE)}"]
        size = len(lines[0])
        while size < RESULT_CHARACTERS:
            lines.append(make())
            size += len(lines[-1]) + 1
        return "\n".join(lines)[:RESULT_CHARACTERS]

    def _log_line(self) -> str:
        pick, number = self._random.choice, self._random.randrange
        request = self._identifier("req_") if number(3) == 0 else pick(self._identifiers)
        time = f"2026-03-{number(1, 29):02}T{number(24):02}:{number(60):02}:{number(60):02}Z"
        host = f"{pick(_SERVICES)}-{number(40)}.prod"
        return f"{time} {pick(_LEVELS)} {host} {request}: {pick(_REASONS)} {number(9000)} ms"

    def _record(self) -> str:
        order = self._identifier("ord_")
        total = round(self._random.uniform(5, 900), 2)
        state = self._random.choice(_STATES)
        return json.dumps({"order": order, "state": state, "total": total, "items": self._turn % 9})

    def _row(self) -> str:
        pick, number = self._random.choice, self._random.randrange
        release = f"{pick(_SERVICES)}@{number(9)}.{number(20)}.{number(40)}"
        return f"| {self._identifier('dep-')} | {release} | {pick(_STATES)} | {number(100)}% |"

    def _identifier(self, prefix: str) -> str:
        self._identifiers.append(self._hex(prefix))
        return self._identifiers[-1]

    def _hex(self, prefix: str) -> str:
        return f"{prefix}{self._random.randrange(16**8):08x}"
