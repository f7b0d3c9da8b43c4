"""A proxy that is started together with the service's first start waits for it."""

from pathlib import Path

import pytest
from contextrender_bridge import Credentials
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.own_hosts import OwnHosts
from contextrender_bridge.proxy.first_start import once_started
from contextrender_bridge.proxy.standalone import standalone_app


@pytest.fixture(autouse=True)
def nothing_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONTEXTRENDER_URL", "CONTEXTRENDER_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTEXTRENDER_DATA", str(tmp_path))


def app() -> OwnHosts:
    made = standalone_app(Settings())
    assert isinstance(made, OwnHosts)
    return made


def test_it_goes_on_once_the_service_has_written_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter([False, True])

    def sleep(_: float) -> None:
        if next(looks):
            Credentials("http://127.0.0.1:8123", "t").save(tmp_path)

    assert isinstance(once_started(app, sleep), OwnHosts)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "start `contextrender serve`" in said


def test_what_waiting_does_not_mend_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(_: float) -> None:
        raise AssertionError

    (tmp_path / "credentials.json").write_text("{")
    with pytest.raises(CommandError, match="cannot be read"):
        once_started(app, sleep)
    (tmp_path / "credentials.json").unlink()
    monkeypatch.setenv("CONTEXTRENDER_URL", "https://far.example")
    with pytest.raises(CommandError, match="CONTEXTRENDER_TOKEN"):
        once_started(app, sleep)
