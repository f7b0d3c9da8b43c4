"""Formats the figures of a replay as JSON, and writes files for commands."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.evaluation.bootstrap import Bootstrap, Difference
from contextrender_bridge.evaluation.scores import CaseScore, RunScore, totals


def to_json(
    runs: Sequence[RunScore], bootstrap: Bootstrap, differences: Iterable[Difference] = ()
) -> dict[str, Any]:
    """Return the figures of every case, over all runs and for each run, and the `differences`.

    Times are left out, so that the same runs give the same figures.
    """
    cases = []
    for index, total in enumerate(totals(runs)):
        figures = bootstrap.estimates(index)
        cases.append(
            {
                **total.to_json(),
                "runs": len(runs),
                "figures": {name: estimate.to_json() for name, estimate in figures.items()},
                "per_run": [_run_figures(run, run.cases[index]) for run in runs],
            }
        )
    compared = [difference.to_json() for difference in differences]
    return {"format": "contextrender-replay/2", "cases": cases, "compared": compared}


def _run_figures(run: RunScore, score: CaseScore) -> dict[str, Any]:
    """Return the figures of one run under one case, with the fields that identify the run."""
    identity = {"id": run.id, "source": run.source, "model": run.model, "task": run.task}
    figures = score.to_json()
    for name in ("policy", "budget", "parameters"):  # they are written once, with the case
        del figures[name]
    return {**identity, **figures, "calls": score.calls}


def write(text: str, path: Path) -> None:
    """Write the text to a file in UTF-8. Raise CommandError if that fails."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
