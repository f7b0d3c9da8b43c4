"""The tables of docs/evaluation.md: python bench/selectors TOOLATHLON --write docs/evaluation.md

Replays every policy at 6K, 12K and 24K, beside the figures they were built to reach. With --resume
only what has changed is replayed. With --write the tables replace those between the marks
`<!-- table: NAME -->` and `<!-- end -->`; otherwise they are printed.

With --policy (`A@12000,B@6000`) these cases alone are replayed, and their rows replace those of the
page.

With --loop it is one table instead, of providers' bills and the closed loop at 6K to 48K: of the
paper's policies (`loop-paper`) or of ours (`loop-ours`).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from contextrender_bridge.errors import CommandError
from tables import (
    COSTS,
    age_table,
    case_table,
    difference_table,
    loop_table,
    peer_table,
    spent_table,
    target_table,
)
from targets import BUDGETS, LOOP_BUDGETS, LOOPS, OTHERS, POLICIES

from evaluation.bootstrap import Bootstrap
from evaluation.cache import ScoreCache
from evaluation.cases import Case, cases_of
from evaluation.progress import progress
from evaluation.runs import read_runs
from evaluation.scores import RunScore
from evaluation.workers import replay_runs

END = "<!-- end -->"
RECALLS = ("result_recall", "value_recall", "turns_with_all_values")


def main() -> int:
    """Replays and writes."""
    parser = argparse.ArgumentParser(prog="bench/selectors", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--resume", type=Path, metavar="DIR", help="keep scores there")
    parser.add_argument("--peers", type=Path, metavar="JSON", help="figures of bench/peers, too")
    parser.add_argument("--loop", choices=LOOPS, help="providers' bills and the closed loop")
    parser.add_argument("--policy", metavar="A,B", help="these only")
    parser.add_argument("--limit", type=int, metavar="N", help="the first N runs only")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (one a processor)")
    parser.add_argument("--write", type=Path, metavar="DOC", help="replace this page's tables")
    args = parser.parse_args()
    try:
        tables = _loop_tables(args) if args.loop else _tables(args)
    except CommandError as error:
        print(f"bench/selectors: {error}", file=sys.stderr)
        return 1
    if args.peers:
        tables["peers"] = peer_table(json.loads(args.peers.read_text()))
    if args.write:
        args.write.write_text(replaced(args.write.read_text(), tables, rows=bool(args.policy)))
    else:
        print("\n\n".join(f"{name}\n\n{table}" for name, table in tables.items()))
    return 0


def replaced(page: str, tables: dict[str, str], *, rows: bool = False) -> str:
    """The page with these tables between its marks; with `rows` only with the rows they have."""
    for name, table in tables.items():
        before, mark, rest = page.partition(f"<!-- table: {name} -->\n")
        if mark:
            old, _, rest = rest.partition(END)
            made = merged(old.strip(), table) if rows else table
            page = f"{before}{mark}\n{made}\n\n{END}{rest}"
    return page


def merged(old: str, new: str) -> str:
    """A table with the rows of another in the place of its own; new ones follow the last like it.

    A row is known by its cells up to the policy, which alone is in code.
    """
    lines = old.splitlines()
    for line in new.splitlines()[2:]:
        at = [number for number, known in enumerate(lines) if _key(known) == _key(line)]
        if at:
            lines[at[0]] = line
        else:
            like = [
                number for number, known in enumerate(lines) if _key(known)[:1] == _key(line)[:1]
            ]
            lines.insert((like or [len(lines) - 1])[-1] + 1, line)
    return "\n".join(lines)


def _key(row: str) -> list[str]:
    cells = row.strip("| ").split(" | ")
    code = [number for number, cell in enumerate(cells[:2]) if cell.startswith("`")]
    return cells[: code[-1] + 1] if code else cells


def _scores(args: argparse.Namespace, cases: Sequence[Case]) -> list[RunScore]:
    runs, loop = read_runs(args.files, args.limit), bool(args.loop)
    total = sum(run.invocations for run in runs) * len(cases)
    with progress("Replaying model calls", total) as advance:
        kept = ScoreCache(args.resume, closed_loop=loop) if args.resume else None
        return replay_runs(runs, cases, args.workers, advance, kept, closed_loop=loop)


def _loop_tables(args: argparse.Namespace) -> dict[str, str]:
    cases = cases_of(args.policy or ",".join(LOOPS[args.loop]), ",".join(map(str, LOOP_BUDGETS)))
    bootstrap = Bootstrap(_scores(args, cases))
    known = {case: bootstrap.estimates(index) for index, case in enumerate(cases)}
    return {args.loop: loop_table(known)}


def _tables(args: argparse.Namespace) -> dict[str, str]:
    budgets = ",".join(map(str, BUDGETS))
    cases = cases_of(args.policy or ",".join([*POLICIES, *OTHERS]), budgets)
    scores = _scores(args, cases)
    bootstrap = Bootstrap(scores)
    known = {case: bootstrap.estimates(index) for index, case in enumerate(cases)}
    return {
        "targets": target_table(known),
        "recall": case_table(known, RECALLS),
        "ages": age_table(known),
        "costs": case_table(known, COSTS),
        "spent": spent_table(scores),
        "differences": difference_table(bootstrap, cases),
    }


if __name__ == "__main__":
    sys.exit(main())
