"""A store's file damaged at random: each command gives a result or a sentence, never a traceback.

`CHAOS_ROUNDS` says how many files are damaged, `CHAOS_SEED` where.
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.server import build_app

from tests.api.conftest import example
from tests.api.test_links import OPEN
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
OLDER_BRANCHES = [RUN[:9]]
FILES = ("store.db", "store.db-wal")
Change = Callable[[bytearray, bytes, random.Random], None]
"""A change of a file's bytes. The second argument is an older copy of the file."""


def flip_bits(file: bytearray, older: bytes, chance: random.Random) -> None:
    """Flip up to eight bits."""
    for _ in range(chance.randint(1, 8)):
        file[chance.randrange(len(file))] ^= 1 << chance.randrange(8)


def fill(size: int) -> Change:
    """Return a function that fills up to three blocks with zeros, noise or another block's bytes.

    `size` is the size of a block, which is a sector or a page, in bytes.
    """

    def damage(file: bytearray, older: bytes, chance: random.Random) -> None:
        for _ in range(chance.randint(1, 3)):
            place, other = (chance.randrange(len(file) // size) * size for _ in range(2))
            contents = (bytes(size), chance.randbytes(size), file[other : other + size])
            file[place : place + size] = chance.choice(contents)

    return damage


def swap_pages(file: bytearray, older: bytes, chance: random.Random) -> None:
    start, other_start = (number * PAGE for number in chance.sample(range(len(file) // PAGE), 2))
    page = file[start : start + PAGE]
    file[start : start + PAGE] = file[other_start : other_start + PAGE]
    file[other_start : other_start + PAGE] = page


def put_older_pages_back(file: bytearray, older: bytes, chance: random.Random) -> None:
    places = range(0, len(older), PAGE)
    changed = [
        place for place in places if older[place : place + PAGE] != file[place : place + PAGE]
    ]
    for place in chance.sample(changed, chance.randint(1, min(3, len(changed)))):
        file[place : place + PAGE] = older[place : place + PAGE]


def cut(file: bytearray, older: bytes, chance: random.Random) -> None:
    """Cut the file in the middle of a page."""
    del file[chance.randrange(len(file)) // PAGE * PAGE + chance.randrange(1, PAGE) :]


DAMAGE: dict[str, Change] = {
    "bits": flip_bits,
    "sectors": fill(SECTOR),
    "pages": fill(PAGE),
    "swapped pages": swap_pages,
    "older pages": put_older_pages_back,
    "cut": cut,
}
KINDS = [*DAMAGE, "log"]


def damage(data: Path, times: Path, kind: str, chance: random.Random) -> None:
    """Damage the file of a data folder in place. The folder `times` has older copies of it.

    Of the kind "log", give the data folder the file and the log of two different times.
    """
    if kind == "log":
        file_time, log_time = chance.sample(["older", "newer"], 2)
        shutil.copy(times / file_time / "store.db", data)
        shutil.copy(times / log_time / "store.db-wal", data)
        return
    file = bytearray((data / "store.db").read_bytes())
    DAMAGE[kind](file, (times / "older.db").read_bytes(), chance)
    with (data / "store.db").open("r+b") as stream:
        stream.write(file)
        stream.truncate()


def copies(intact: Path, place: Path, kind: str) -> Iterator[tuple[Path, random.Random]]:
    """Yield a copy of a data folder for each round, and the source of its damage."""
    print(f"CHAOS_SEED={SEED}")
    chance = random.Random(f"{SEED} {kind}")
    for number in range(-(-ROUNDS // len(KINDS))):
        data = place / str(number) / "data"
        shutil.copytree(intact, data)
        yield data, chance
        shutil.rmtree(data.parent)


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a data folder with two users and two sessions of two branches.

    Beside it are `older` and `newer`, each with the file and the log at one time. Between the two,
    the log was copied into the file.
    """
    data = tmp_path_factory.mktemp("intact") / "data"

    def keep(time: str) -> None:
        (data.parent / time).mkdir()
        for name in FILES:
            shutil.copy(data / name, data.parent / time / name)

    with local_service(data) as api:
        api.accounts.add("someone")
        for stop in (5, 9, len(RUN)):
            for name in ("s", "other"):
                api("render", session=name, messages=RUN[:stop], budget=300)
            if stop == 9:
                keep("older")
                with closing(sqlite3.connect(data / "store.db")) as connection:
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                shutil.copy(data / "store.db", data.parent / "older.db")
        for name in ("s", "other"):
            api("render", session=name, messages=OTHER, budget=300)
            usage = {"messages": len(OTHER), "uncached": 900, "output": 40}
            api("record_usage", session=name, usage=usage)
        keep("newer")
    return data


def run_command(*words: str | Path, **options: dict[str, str]) -> subprocess.CompletedProcess[str]:
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


def read_by_commands(data: Path, folder: Path, ways: list[list[list[Json]]]) -> bool:
    """Return whether `sessions` lists both sessions and `export` returns each in one of the ways.

    Assert that the export has no message that was not stored, and that the server answers every
    other request with a result or a sentence.
    """
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
        listed = run_command("sessions", environment=environment)
        is_intact = listed.returncode == 0 and all(name in listed.stdout for name in ("s", "other"))
        for name in ("s", "other"):
            file = folder / f"{name}.json"
            if run_command("export", name, file, environment=environment).returncode:
                is_intact = False
            else:
                branches = json.loads(file.read_text())["branches"]
                is_intact &= [branch["messages"] for branch in branches] in ways
                for branch in branches:
                    start, messages = branch["fork_position"], branch["messages"]
                    stop = start + len(messages)
                    assert messages in (RUN[start:stop], OTHER[start:stop]), branch
        check_answers(url, token)
    return is_intact


def check_answers(url: str, token: str) -> None:
    more = {"session": "s", "messages": [*RUN, user("And now?")]}
    calls = [(walker, example(walker, "s")) for walker in OPEN]
    calls += [("total_savings", {}), ("render", {**more, "budget": 300}), ("sync", more)]
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}) as http:
        for walker, fields in calls:
            reply = http.post(f"/walker/{walker}", json=fields, timeout=60)
            assert reply.status_code in (200, 401, 404, 409, 422, 503), (walker, reply.text)
            assert reply.status_code == 200 or " " in reply.json()["error"]["message"], reply.text


@pytest.mark.parametrize("kind", KINDS)
def test_no_command_ends_in_a_traceback_on_a_damaged_file(
    intact: Path, tmp_path: Path, kind: str
) -> None:
    """A file without findings has lost nothing; a damaged file is neither repaired nor copied."""
    # An old file with its own log is a store of that time.
    ways = [BRANCHES, OLDER_BRANCHES] if kind == "log" else [BRANCHES]
    for data, chance in copies(intact, tmp_path, kind):
        damage(data, intact.parent, kind, chance)
        folder = data.parent
        check_process = run_command("check", "--data", data)
        statuses = {
            run_command("backup", folder / "backup", "--data", data).returncode,
            run_command("restore", data, "--data", folder / "restored").returncode,
        }
        assert statuses == {int("damaged file" in check_process.stdout or not check_process.stdout)}
        is_whole = read_by_commands(data, folder, ways)
        assert is_whole or check_process.returncode == 1, (folder, check_process)
        repair_process = run_command("check", "--repair", "--data", data)
        assert (
            "damaged file" not in repair_process.stdout or "(repaired)" not in repair_process.stdout
        )
        run_command("check", "--data", data)


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGE)
def test_running_server_answers_when_its_file_is_damaged(
    intact: Path, tmp_path: Path, kind: str
) -> None:
    for data, chance in copies(intact, tmp_path, kind):
        app = build_app(data)
        token = app.state.service.accounts.local_token()
        with serving(app) as url:
            check_answers(url, token)
            with closing(sqlite3.connect(data / "store.db")) as connection:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            damage(data, intact.parent, kind, chance)
            check_answers(url, token)
