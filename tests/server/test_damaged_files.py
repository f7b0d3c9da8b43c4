"""A store's file damaged at random: each command gives a result or a sentence, never a traceback.

`CHAOS_ROUNDS` says how many files are damaged, `CHAOS_SEED` where.
"""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.server import build_app

from tests.support.command import contextrender
from tests.support.local import local_service
from tests.support.scripted_model import serving
from tests.support.transcripts import agent_run, assistant, user

ROUNDS = int(os.environ.get("CHAOS_ROUNDS", "6"))
SEED = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(2**32)
SECTOR, PAGE = 512, 8_192
RUN = agent_run(8, lines=5)
OTHER = [*RUN[:9], assistant("Let me start over with ORD-1001."), user("Do.")]
BRANCHES = [RUN, OTHER[9:]]
Damage = Callable[[bytearray, random.Random], None]


def flip_bits(file: bytearray, chance: random.Random) -> None:
    """Flip up to eight bits."""
    for _ in range(chance.randint(1, 8)):
        file[chance.randrange(len(file))] ^= 1 << chance.randrange(8)


def fill(size: int) -> Damage:
    """Return what fills up to three sectors or pages: with zeros, noise, or another one's bytes."""

    def damage(file: bytearray, chance: random.Random) -> None:
        for _ in range(chance.randint(1, 3)):
            place, other = (chance.randrange(len(file) // size) * size for _ in range(2))
            contents = (bytes(size), chance.randbytes(size), file[other : other + size])
            file[place : place + size] = chance.choice(contents)

    return damage


DAMAGE: dict[str, Damage] = {"bits": flip_bits, "sectors": fill(SECTOR), "pages": fill(PAGE)}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a data folder with two users and two sessions of two branches."""
    data = tmp_path_factory.mktemp("intact") / "data"
    with local_service(data) as api:
        api.accounts.add("someone")
        for name in ("s", "other"):
            for stop in (5, 9, len(RUN)):
                api("render", session=name, messages=RUN[:stop], budget=300)
            api("render", session=name, messages=OTHER, budget=300)
            usage = {"messages": len(OTHER), "uncached": 900, "output": 40}
            api("record_usage", session=name, usage=usage)
    return data


def ran(*words: str | Path, **options: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command in this process, where its exception would be raised here."""
    process = contextrender(*words, **options)  # type: ignore[arg-type]
    assert process.returncode in (0, 1), (words, process)
    assert process.returncode == 0 or len((process.stdout + process.stderr).split()) > 4, (
        words,
        process,
    )
    assert "Traceback" not in process.stderr and "The server failed" not in process.stderr, (
        words,
        process,
    )
    return process


def read_by_commands(data: Path, folder: Path) -> bool:
    """Return whether `sessions` lists both sessions and `export` gives each back as it came."""
    app = None
    try:
        app = build_app(data)
        token = app.state.service.accounts.local_token()
    except (CommandError, ContextRenderError):  # `contextrender serve` prints its sentence
        if app is not None:
            app.state.service.close()
        return False
    with serving(app) as url:
        environment = {**os.environ, "CONTEXTRENDER_URL": url, "CONTEXTRENDER_TOKEN": token}
        listed = ran("sessions", environment=environment)
        is_intact = listed.returncode == 0 and all(name in listed.stdout for name in ("s", "other"))
        for name in ("s", "other"):
            file = folder / f"{name}.json"
            if ran("export", name, file, environment=environment).returncode:
                is_intact = False
            else:
                branches = json.loads(file.read_text())["branches"]
                is_intact &= [branch["messages"] for branch in branches] == BRANCHES
    return is_intact


@pytest.mark.parametrize("kind", DAMAGE)
def test_no_command_ends_in_a_traceback_on_a_damaged_file(
    intact: Path, tmp_path: Path, kind: str
) -> None:
    """What `check` finds nothing in has lost nothing; a damaged file is not repaired or copied."""
    print(f"CHAOS_SEED={SEED}")
    chance = random.Random(f"{SEED} {kind}")
    for number in range(-(-ROUNDS // len(DAMAGE))):
        folder = tmp_path / str(number)
        data = folder / "data"
        shutil.copytree(intact, data)
        file = bytearray((data / "store.db").read_bytes())
        DAMAGE[kind](file, chance)
        (data / "store.db").write_bytes(file)
        checked = ran("check", "--data", data)
        statuses = {
            ran("backup", folder / "backup", "--data", data).returncode,
            ran("restore", data, "--data", folder / "restored").returncode,
        }
        assert statuses == {int("damaged file" in checked.stdout or not checked.stdout)}
        is_whole = read_by_commands(data, folder)
        assert is_whole or checked.returncode == 1, (number, checked)
        repaired = ran("check", "--repair", "--data", data)
        assert "damaged file" not in repaired.stdout or "(repaired)" not in repaired.stdout
        ran("check", "--data", data)
        shutil.rmtree(folder)
