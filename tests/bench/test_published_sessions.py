"""The copies of sessions from a project's branch."""

import json
import subprocess
import sys
from pathlib import Path

from bench import published_sessions


def test_session_id_leads_to_no_other_folder(tmp_path: Path) -> None:
    clone, out = tmp_path / "clone", tmp_path / "out"
    for number, session in enumerate(("one", "../two", "/three")):
        folder = clone / str(number)
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text(json.dumps({"session_id": session}))
        (folder / "full.jsonl").write_text(session)
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org")
    for words in (
        ("init", "-q", "-b", published_sessions.BRANCH),
        ("add", "-A"),
        (*identity, "commit", "-qm", "Sessions"),
    ):
        published_sessions.git(clone, *words)
    subprocess.run(
        [sys.executable, "-m", "bench.published_sessions", clone, "--out", out], check=True
    )
    copies = {path.read_text(): path.parent.parent for path in tmp_path.rglob("out/*/*.jsonl")}
    assert copies == dict.fromkeys(("one", "../two", "/three"), out)
