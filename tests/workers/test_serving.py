"""A worker's server, in this process."""

import mmap
import os
import socket
import threading

import pytest
import uvicorn
from contextrender_bridge.workers import serving

from tests.support.waiting import until


async def nothing(scope: object, receive: object, send: object) -> None:
    """An app that is never asked."""


def test_it_tells_that_its_loop_goes_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "BEAT_SECONDS", 0.01)
    (told, tell), (alive, end) = os.pipe(), os.pipe()
    worker = serving.Worker(0, 1, tell, alive, mmap.mmap(-1, 1))
    config = uvicorn.Config(nothing, ws="none", lifespan="off", log_config=None)
    listener = socket.create_server(("127.0.0.1", 0))
    served = serving.WorkerServer(config, worker)
    thread = threading.Thread(target=lambda: served.run(sockets=[listener]))
    thread.start()
    until(lambda: worker.beats[0] > 3, alive=thread.is_alive)
    assert os.read(told, 1) == bytes([worker.number])
    served.should_exit = True
    thread.join(30)
    assert not thread.is_alive()
    for each in (told, tell, alive, end):
        os.close(each)
