"""Count, by length, the runs that the live default makes cheaper: `python -m bench.run_lengths`.

    python -m bench.run_lengths RUNS...

Each run is replayed in a closed loop with the live default. A run counts as cheaper if its cost is
lower than with the full history under each of the providers' cache rules. A run's length is the
number of tokens of its longest history. The last column has the length of the longest run that is
not cheaper.
"""

import argparse
from pathlib import Path

from contextrender_bridge.evaluation.cases import cases_named
from contextrender_bridge.evaluation.runs import read_runs
from contextrender_bridge.evaluation.verdict import run_lengths
from contextrender_bridge.evaluation.workers import replay_runs

LIVE = "contextrender_cache_aware:agent_defaults=1@auto"
RULES = ("openai", "anthropic")
STARTS = (24_000, 50_000)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.run_lengths", description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS")
    runs = list(read_runs(parser.parse_args().runs))
    scores = replay_runs(runs, cases_named(LIVE, []), None, closed_loop=True)
    lengths_by_rule = [run_lengths(scores, rule) for rule in RULES]
    tokens = [run.tokens for run in lengths_by_rule[0]]
    is_cheaper = [
        all(cost < 1 for run in same_run for cost in run.costs.values())
        for same_run in zip(*lengths_by_rule, strict=True)
    ]

    print("tokens | runs | cheaper | longest run that is not cheaper")
    for start, stop in zip(STARTS, (*STARTS[1:], None), strict=True):
        band = [
            (length, cheaper)
            for length, cheaper in zip(tokens, is_cheaper, strict=True)
            if start < length and (stop is None or length <= stop)
        ]
        name = f"{start:,} to {stop:,}" if stop else f"above {start:,}"
        longest = max((length for length, cheaper in band if not cheaper), default=0)
        cheaper_count = sum(cheaper for _, cheaper in band)
        print(f"{name} | {len(band)} | {cheaper_count} | {longest:,}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
