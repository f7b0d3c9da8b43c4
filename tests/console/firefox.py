"""Debian's Firefox, driven over WebDriver BiDi.

Playwright 1.65 launches it, and then asks it for a command that Firefox 153 does not know.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until

NAMES = ("firefox-esr", "firefox")
LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)\n")
QUIET = """
user_pref("app.normandy.enabled", false);
user_pref("app.update.disabledForTesting", true);
user_pref("browser.region.network.url", "");
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("network.captive-portal-service.enabled", false);
user_pref("network.connectivity-service.enabled", false);
user_pref("services.settings.server", "data:,");
"""
"""Settings under which it asks nobody but the server under test."""
SECONDS = 120
"""For one answer: machines that run tests are busy ones."""
COMES = """new Promise(done => {
    const look = () => document.querySelector(%s) ? done(true) : setTimeout(look, 50);
    look();
})"""


class Firefox:
    """One tab of a running Firefox. `problems` is what went wrong in its pages."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._ids = count(1)
        self.problems: list[str] = []
        self.send("session.new", capabilities={})
        self.send("session.subscribe", events=["log.entryAdded"])
        self._tab = self.send("browsingContext.create", type="tab")["context"]

    def send(self, method: str, **params: Any) -> Any:
        """The result of a command; events that come before it are taken in."""
        number = next(self._ids)
        self._connection.send(json.dumps({"id": number, "method": method, "params": params}))
        while (message := json.loads(self._connection.recv(SECONDS))).get("id") != number:
            entry = message.get("params", {})
            if entry.get("level") in ("error", "warn"):
                self.problems.append(entry["text"])
        assert message["type"] == "success", message
        return message["result"]

    def open(self, url: str) -> None:
        """Goes there, until it has loaded."""
        self.send("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def run(self, script: str) -> Any:
        """The value of an expression, or of its promise: a text, a number or a truth."""
        found = self.send(
            "script.evaluate",
            expression=script,
            target={"context": self._tab},
            awaitPromise=True,
        )
        assert found["type"] == "success", found
        return found["result"].get("value")

    def wait_for(self, selector: str) -> str:
        """The text of the first such element, once there is one."""
        self.run(COMES % json.dumps(selector))
        text: str = self.run(f"document.querySelector({json.dumps(selector)}).textContent")
        return text

    def press(self, *keys: str) -> None:
        """Types them, one after the other."""
        strokes = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": strokes}
        self.send("input.performActions", context=self._tab, actions=[keyboard])


@contextmanager
def running_firefox() -> Iterator[Firefox]:
    """A Firefox with a profile of its own. Skips the test where there is none."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no Firefox: apt-get install firefox-esr")
    client = pytest.importorskip("websockets.sync.client", reason="websockets is not installed")
    with tempfile.TemporaryDirectory() as folder:
        said, profile = Path(folder) / "said", Path(folder) / "profile"
        profile.mkdir()
        (profile / "user.js").write_text(QUIET)
        command = [path, "--headless", "--no-remote", "--remote-debugging-port", "0"]
        with said.open("wb") as out:
            process = subprocess.Popen([*command, "--profile", profile], stdout=out, stderr=out)
        try:
            listening = until(
                lambda: LISTENING.search(said.read_text(errors="replace")),
                alive=lambda: process.poll() is None,
                why=said.read_text,
            )
            assert listening
            with client.connect(f"{listening[1]}/session", max_size=None) as connection:
                yield Firefox(connection)
        finally:
            process.terminate()
            process.wait()
