"""The figures of a replay as JSON, and files that commands write."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.evaluation.bootstrap import Bootstrap, Difference
from contextrender_bridge.evaluation.scores import CaseScore, RunScore, totals


def to_json(
    runs: Sequence[RunScore], bootstrap: Bootstrap, differences: Iterable[Difference] = ()
) -> dict[str, Any]:
    """Every case's figures over all runs and for each, without times: reproducible."""
    cases = []
    for index, total in enumerate(totals(runs)):
        figures = bootstrap.estimates(index)
        cases.append(
            {
                **total.to_json(),
                "runs": len(runs),
                "figures": {name: estimate.to_json() for name, estimate in figures.items()},
                "per_run": [_of_run(run, run.cases[index]) for run in runs],
            }
        )
    compared = [difference.to_json() for difference in differences]
    return {"format": "contextrender-replay/2", "cases": cases, "compared": compared}


def _of_run(run: RunScore, score: CaseScore) -> dict[str, Any]:
    about = {"id": run.id, "source": run.source, "model": run.model, "task": run.task}
    figures = score.to_json()
    for name in ("policy", "budget", "parameters"):
        del figures[name]
    return {**about, **figures, "calls": score.calls}


def write(text: str, path: Path) -> None:
    """Writes a file. Raises CommandError when it cannot."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}.") from None
