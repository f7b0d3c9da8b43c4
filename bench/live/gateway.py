"""What an agent takes for its model: makes the history fit, asks the real model, counts tokens."""

import json
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.fitting import fitted
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.dialects.observations import Observations
from contextrender_bridge.wire import Json
from models import Complete

from engine.costs import NOTHING_USED, Usage
from evaluation.cases import Case


@dataclass
class Meter:
    """One task's counts: the agent's calls, the policy's own, and the longest history in tokens.

    `failures` are the model's, service's or agent's errors, by name: a task with any is no
    measurement.
    """

    sent: Usage = NOTHING_USED
    own: Usage = NOTHING_USED
    calls: int = 0
    longest: int = 0
    warnings: int = 0
    failures: list[str] = field(default_factory=list)


class Seat:
    """One task's place at the model."""

    def __init__(self, client: ContextRender, complete: Complete, case: Case, task: str) -> None:
        self.meter = Meter()
        self.url = ""
        self._client = client
        self._complete = complete
        self._case = case
        self._session = f"{task}-{uuid.uuid4().hex}"
        self._instructions = -1
        self._lock = threading.Lock()

    def answer(self, body: Mapping[str, Any]) -> tuple[int, Json]:
        """The reply to one chat request, with its status."""
        with self._lock:
            try:
                reply = self._complete(self._fit(body))
            except Exception as failure:
                self.meter.failures.append(type(failure).__name__)
                return 502, {"error": {"message": type(failure).__name__, "type": "gateway"}}
            self._count(reply.get("usage") or {})
            return 200, reply

    def _fit(self, body: Mapping[str, Any]) -> Json:
        """The request with what the policy shows of its history.

        What the first request holds before its last message are instructions, demonstrations
        among them, and no history.
        """
        if self._instructions < 0:
            self._instructions = len(body["messages"]) - 1
        calls = body.get("tools") or body.get("functions")
        dialect = DIALECTS["chat"] if calls else Observations(self._instructions)
        transcript = dialect.read(body)
        reply = self._client.render(
            self._session,
            transcript.messages,
            budget=self._case.budget,
            policy=self._case.policy,
            parameters=self._case.changed or None,
            want="plan",
        )
        used = reply["usage"]
        self.meter.own = self.meter.own.plus(
            Usage(used["model_tokens_in"], 0, used["model_tokens_out"], used["embedding_tokens"])
        )
        self.meter.longest = max(self.meter.longest, reply["tokens"]["before"])
        self.meter.warnings += len(reply["warnings"])
        return dict(fitted(body, transcript, reply).body)

    def _count(self, usage: Mapping[str, Any]) -> None:
        details = usage.get("prompt_tokens_details") or {}
        self.meter.calls += 1
        self.meter.sent = self.meter.sent.plus(
            Usage(
                int(usage.get("prompt_tokens") or 0),
                int(details.get("cached_tokens") or 0),
                int(usage.get("completion_tokens") or 0),
            )
        )


@contextmanager
def gateway(client: ContextRender, complete: Complete, case: Case, task: str) -> Iterator[Seat]:
    """Serves one task's seat at `seat.url` until the block ends."""
    seat = Seat(client, complete, case, task)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, reply = seat.answer(body)
            payload = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            """Stays quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    seat.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield seat
    finally:
        server.shutdown()
        server.server_close()
