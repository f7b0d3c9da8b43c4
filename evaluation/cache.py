"""Scores kept in a file for each run and case, so that a replay can be resumed."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.base.settings import current_settings

from engine.costs import Usage
from engine.lookback.measures import RecallScore
from engine.models.guideline import load_guideline
from engine.models.summaries import MODEL_POLICIES
from evaluation.caches import Billed
from evaluation.cases import Case, all_of
from evaluation.runs import Run
from evaluation.scores import CaseScore, LoopScore, RunScore

FORMAT = 2
MEASURING = ("caches", "closed_loop", "in_process", "prompts", "scores", "scoring")
"""The modules that scores depend on."""


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
                fresh.write_text(json.dumps(_to_json(score, case)), encoding="utf-8")
                fresh.replace(path)
            except OSError as error:
                raise CommandError(f"cannot write {fresh}: {error.strerror}.") from None

    def get(self, run: Run, cases: Sequence[Case], fresh: RunScore | None = None) -> RunScore:
        """A run's scores: the `fresh` ones, and of the other cases those kept, all of them."""
        fingerprint = run.fingerprint
        known = {score.case: score for score in fresh.cases} if fresh else {}
        found = fresh or RunScore(run.id, run.source, run.model, [], run.task)
        found.cases = []
        for case in cases:
            if case in known:
                found.cases.append(known[case])
                continue
            data = json.loads(self._path(fingerprint, case).read_text("utf-8"))
            found.cases.append(_case_score(case, data))
            found.full, found.full_calls = Usage(**data["full"]), data["full_calls"]
            found.full_bills = _bills(data["full_bills"])
            found.recording = max(found.recording, data["recording"])
            found.embedding = max(found.embedding, data["embedding"])
        return found

    def _path(self, fingerprint: str, case: Case) -> Path:
        parameters = sorted(all_of(case.parameters).items())
        settings = [case.policy, case.budget, parameters, case.live]
        text = json.dumps([FORMAT, code(), _models(case), fingerprint, settings, self.closed_loop])
        name = hashlib.sha256(text.encode()).hexdigest()
        return self._folder / name[:2] / f"{name[2:32]}.json"


@cache
def code() -> str:
    """The version of the distribution and a digest of the code that scores depend on."""
    own = Path(__file__).parent
    engine = app_dir() / "engine"
    files = sorted(path for path in engine.rglob("*") if path.suffix in (".py", ".jac"))
    files = [path for path in files if ".jac" not in path.relative_to(engine).parts]
    files += [own / f"{name}.py" for name in MEASURING]
    digest = hashlib.sha256(version("contextrender").encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _models(case: Case) -> list[str]:
    settings = current_settings()
    if case.policy not in MODEL_POLICIES:
        return [settings.embed_model]
    return [settings.embed_model, settings.model, load_guideline(settings.acon_guideline)]


def _to_json(run: RunScore, score: CaseScore) -> dict[str, Any]:
    return {
        "full": asdict(run.full),
        "full_calls": run.full_calls,
        "full_bills": {rule: asdict(billed) for rule, billed in run.full_bills.items()},
        "recall": vars(score.recall),
        "tokens_outside": score.tokens_outside,
        "sent": asdict(score.sent),
        "own": asdict(score.own),
        "calls": score.calls,
        "seconds": score.seconds,
        "bills": {rule: asdict(billed) for rule, billed in score.bills.items()},
        "newest": score.newest,
        "newest_complete": score.newest_complete,
        "loop": asdict(score.loop) if score.loop else None,
        "recording": run.recording,
        "embedding": run.embedding,
    }


def _case_score(case: Case, data: dict[str, Any]) -> CaseScore:
    recall = RecallScore()
    vars(recall).update(data["recall"])
    sent, own = Usage(**data["sent"]), Usage(**data["own"])
    return CaseScore(
        case,
        recall,
        data["tokens_outside"],
        sent,
        own,
        data["calls"],
        seconds=data["seconds"],
        bills=_bills(data["bills"]),
        newest=data["newest"],
        newest_complete=data["newest_complete"],
        loop=_loop(data["loop"]) if data["loop"] else None,
    )


def _loop(data: Mapping[str, Any]) -> LoopScore:
    return LoopScore(**{**data, "own": Usage(**data["own"]), "bills": _bills(data["bills"])})


def _bills(data: Mapping[str, Mapping[str, int]]) -> dict[str, Billed]:
    return {rule: Billed(**billed) for rule, billed in data.items()}
