"""A provider's event that is far larger than any should be."""

import json

import pytest

from tests.proxy.conftest import Start
from tests.support.scripted_model import Reply, stream

SIZE = 30 * 2**20
PIECE = 2**16
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASK = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}]}


def large() -> Reply:
    """One event of so many bytes, in pieces as they come over a network."""
    delta = {"index": 0, "delta": {"content": "a" * SIZE}, "finish_reason": None}
    reply = stream([{"id": "c", "choices": [delta]}, "[DONE]"])
    data = b"".join(reply.chunks)
    reply.chunks = [data[at : at + PIECE] for at in range(0, len(data), PIECE)]
    return reply


@pytest.mark.slow
@pytest.mark.parametrize("recall", ["off", "on"])
def test_it_arrives_whole(start: Start, recall: str) -> None:
    setup = start()
    setup.model.script = [large()]
    got = setup.post(
        "/v1/chat/completions", {**ASK, "tools": [TOOL]}, x_contextrender_recall=recall
    )
    assert got.status_code == 200
    event = json.loads(got.content.partition(b"data: ")[2].partition(b"\n\n")[0])
    assert len(event["choices"][0]["delta"]["content"]) == SIZE
