"""The first-run check of each Python adapter whose runtime can be had: a call is shortened."""

import re

import pytest
from contextrender_bridge.adapters.trials import TRIALS

from adapters.conftest import Loopback
from adapters.testing.commands import run
from adapters.testing.installs import ADAPTERS, python_of

NAMES = [name for name in TRIALS if (ADAPTERS / name / "requirements.txt").is_file()]


@pytest.mark.parametrize("name", NAMES)
def test_a_call_goes_through_the_adapter(loopback: Loopback, name: str) -> None:
    command = [python_of(name), "-m", "contextrender_bridge.adapters.check", name]
    told = run(command, loopback.environment(LITELLM_LOCAL_MODEL_COST_MAP="True")).stdout
    assert re.search(r"ok    a call: through the adapter [1-7] of 8 results were sent", told), told
    assert loopback.sessions() == []
