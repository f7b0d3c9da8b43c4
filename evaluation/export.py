"""What a replay writes: figures as JSON, and as CSV."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError

from evaluation.bootstrap import Bootstrap, Difference
from evaluation.scores import CaseScore, RunScore, totals


def to_json(
    runs: Sequence[RunScore], bootstrap: Bootstrap, differences: Iterable[Difference] = ()
) -> dict[str, Any]:
    """Every case's figures over all runs and for each, without times: reproducible."""
    cases = []
    for index, total in enumerate(totals(runs)):
        each = [
            {
                "id": run.id,
                "source": run.source,
                "model": run.model,
                "task": run.task,
                **_own(run.cases[index]),
                "calls": run.cases[index].calls,
            }
            for run in runs
        ]
        figures = bootstrap.estimates(index)
        cases.append(
            {
                **total.to_json(),
                "runs": len(runs),
                "figures": {name: estimate.to_json() for name, estimate in figures.items()},
                "per_run": each,
            }
        )
    compared = [difference.to_json() for difference in differences]
    return {"format": "contextrender-replay/2", "cases": cases, "compared": compared}


def to_csv(runs: Sequence[RunScore], bootstrap: Bootstrap) -> str:
    """A line a case: its sums, and every figure with the ends of its interval."""
    lines = []
    for index, total in enumerate(totals(runs)):
        plain = {
            name: value
            for name, value in total.to_json().items()
            if not isinstance(value, dict) and name not in bootstrap.estimates(index)
        }
        line: dict[str, Any] = {**plain, "policy": total.case.name, "runs": len(runs)}
        for name, estimate in bootstrap.estimates(index).items():
            column = name.replace(" ", "_")
            line |= {column: estimate.value}
            line |= {f"{column}_low": estimate.low, f"{column}_high": estimate.high}
        lines.append(line)
    out = io.StringIO()
    writer = csv.DictWriter(out, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return out.getvalue()


def write(text: str, path: Path) -> None:
    """Writes a file. Raises CommandError when it cannot."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}.") from None


def write_json(figures: Mapping[str, Any], path: Path) -> None:
    """Writes `to_json`. Raises CommandError when it cannot."""
    write(json.dumps(figures, indent=1) + "\n", path)


def _own(score: CaseScore) -> dict[str, Any]:
    figures = score.to_json()
    for name in ("policy", "budget", "parameters"):
        del figures[name]
    return figures
