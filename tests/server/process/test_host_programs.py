"""`embedded()` in programs that have packages named as the app's are."""

import sys
from pathlib import Path

import pytest
from contextrender_bridge import embedded

from tests.support.host_program import run_host

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("when", ["before", "amid", "after"])
def test_a_host_keeps_its_own_packages(when: str, tmp_path: Path) -> None:
    data = run_host(Path(sys.executable), tmp_path, when)

    # Our own programs find the same types under their plain names.
    with embedded(data) as service, service.client() as client:
        assert client.inspect_session("run")["uses"] == 1
        assert client.export_session("run")["branches"][0]["messages"][-1]["content"] == "And now?"
