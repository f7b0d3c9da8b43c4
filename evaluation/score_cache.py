"""Scores kept in a file for each run and case, so that a replay can be resumed."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.base.settings import current_settings
from pydantic import TypeAdapter

from engine.models.summaries import MODEL_POLICIES, load_guideline
from evaluation.cases import Case
from evaluation.runs import Run
from evaluation.scores import RunScore

KEPT: Final = TypeAdapter(RunScore)


class ScoreCache:
    """A folder of scores.

    A score is found again by what it depends on: the run's contents, the case with all its
    parameters, the models, and this program's own code. Scores of calls that went without a model
    they needed are not kept.
    """

    def __init__(self, folder: Path, *, closed_loop: bool = False) -> None:
        """Makes the folder, for scores with a closed loop or without.

        Raises CommandError when it cannot.
        """
        self._folder = folder
        self.closed_loop = closed_loop
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CommandError(f"cannot make {folder}: {error.strerror}.") from None

    def missing(self, run: Run, cases: Sequence[Case]) -> list[Case]:
        """The cases there is no score of."""
        fingerprint = run.fingerprint
        return [case for case in cases if not self._path(fingerprint, case).exists()]

    def put(self, run: Run, score: RunScore) -> None:
        """Keeps a run's scores. Raises CommandError when they cannot be written."""
        fingerprint = run.fingerprint
        for case in score.cases:
            if case.warned:
                continue
            path = self._path(fingerprint, case.case)
            fresh = path.with_suffix(f".{os.getpid()}")
            try:
                path.parent.mkdir(exist_ok=True)
                fresh.write_bytes(KEPT.dump_json(replace(score, cases=[case])))
                fresh.replace(path)
            except OSError as error:
                raise CommandError(f"cannot write {fresh}: {error.strerror}.") from None

    def get(self, run: Run, cases: Sequence[Case], fresh: RunScore | None = None) -> RunScore:
        """A run's scores: the `fresh` ones, and of the other cases those kept, all of them."""
        fingerprint = run.fingerprint
        known = {score.case: score for score in fresh.cases} if fresh else {}
        parts = [fresh] if fresh else []
        for case in cases:
            if case not in known:
                part = KEPT.validate_json(self._path(fingerprint, case).read_bytes())
                known[case] = replace(part.cases[0], case=case)
                parts.append(part)
        return replace(
            parts[-1],
            id=run.id,
            source=run.source,
            task=run.task,
            cases=[known[case] for case in cases],
            recording=max(part.recording for part in parts),
            embedding=max(part.embedding for part in parts),
        )

    def _path(self, fingerprint: str, case: Case) -> Path:
        settings = current_settings()
        models = [settings.embed_model]
        if case.policy in MODEL_POLICIES:
            models += [settings.model, load_guideline(settings.acon_guideline)]
        ways = [case.policy, case.budget, case.parameters.to_json(), case.live, self.closed_loop]
        name = hashlib.sha256(json.dumps([code(), models, fingerprint, ways]).encode()).hexdigest()
        return self._folder / name[:2] / f"{name[2:32]}.json"


@cache
def code() -> str:
    """The version of the distribution and a digest of the code that scores depend on."""
    rooms = (app_dir() / "engine", Path(__file__).parent)
    files = [path for room in rooms for path in sorted(room.rglob("*.py"))]
    files += sorted((rooms[0] / "models").glob("[a-z]*.jac"))
    digest = hashlib.sha256(version("contextrender").encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
