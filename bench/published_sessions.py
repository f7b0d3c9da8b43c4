"""Copy the sessions that projects publish: `python -m bench.published_sessions REPO... --out DIR`.

Each REPO is a clone of a project with the Git branch `entire/checkpoints/v1`. On this branch, each
saved state of an agent's session has a folder with `metadata.json` and `full.jsonl`. The largest
`full.jsonl` of each session is copied to DIR. Copy them to a folder below `~/.claude/projects`, and
`contextrender audit --agent claude` reads them. Files that the clone lacks are counted.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

BRANCH = "entire/checkpoints/v1"


def saved_files(repository: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the size, the session's id and the blob of each `full.jsonl`.

    The size is -1 if the clone lacks the file.
    """
    sizes: dict[PurePosixPath, int] = {}
    blobs: dict[PurePosixPath, str] = {}
    for line in git(repository, "ls-tree", "-r", "-l", _branch(repository)).decode().splitlines():
        fields, name = line.split("\t")
        path = PurePosixPath(name)
        _, _, blobs[path], size = fields.split()
        sizes[path] = int(size) if size.isdigit() else -1
    for path, blob in blobs.items():
        metadata = blobs.get(path.parent / "metadata.json")
        if path.name == "full.jsonl" and metadata:
            session = json.loads(git(repository, "cat-file", "blob", metadata)).get("session_id")
            if session:
                # The id becomes a file's name, so it must not lead to another folder.
                yield sizes[path], str(session).replace("/", "_"), blob


def _branch(repository: Path) -> str:
    """Return the branch in a clone, where it may be a remote's. Exit if there is none."""
    refs = git(repository, "for-each-ref", "--format=%(refname:short)").decode().split()
    for name in (BRANCH, f"origin/{BRANCH}"):
        if name in refs:
            return name
    raise SystemExit(f"{repository} has no branch {BRANCH}")


def git(repository: Path, *arguments: str) -> bytes:
    """Return what a Git command prints."""
    return subprocess.run(
        ["git", "-C", repository, *arguments], check=True, stdout=subprocess.PIPE
    ).stdout


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.published_sessions", description=__doc__)
    parser.add_argument("repositories", nargs="+", type=Path, metavar="REPO")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()
    for repository in options.repositories:
        files = sorted(saved_files(repository))
        largest = {session: blob for size, session, blob in files if size >= 0}
        missing_count = sum(size < 0 for size, _, _ in files)
        folder = options.out / "-".join(repository.resolve().parts[-2:])
        folder.mkdir(parents=True, exist_ok=True)
        for session, blob in largest.items():
            (folder / f"{session}.jsonl").write_bytes(git(repository, "cat-file", "blob", blob))
        print(
            f"{folder}: {len(largest)} sessions; {missing_count} of {len(files)} files are missing"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
