"""Measure very long sessions: `python -m bench.joined_sessions RUNS... [--tokens 2000000]`.

Recorded runs are joined until each session has this many tokens, and every call is rendered as for
a live agent. The table has the share of steps whose prompt shows every value that the step uses,
for all calls and for each tenth of the calls. It compares the joined session with the same runs
rendered alone, which shows whether long sessions lose values. Only values of the step's own run
count, because an answer that repeats a word of another run did not need that run. One more column
has the largest decrease of a prompt from one call to the next, and one has the number of user
messages that at least one prompt omitted.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from contextrender_bridge.base.wire import Json
from contextrender_bridge.engine.models.embeddings import load_embedder
from contextrender_bridge.engine.replay.recall_measures import unseen_tokens
from contextrender_bridge.engine.text.tokens import counter_for
from contextrender_bridge.evaluation.cases import Case, cases_named
from contextrender_bridge.evaluation.in_process import replay_run
from contextrender_bridge.evaluation.runs import Run, read_runs
from contextrender_bridge.evaluation.scores import Prompt, Turn

LIVE = "contextrender_cache_aware:agent_defaults=1@auto"
TENTHS = 10
PAUSE = 600.0
"""Seconds between two joined runs: longer than the provider keeps its cache."""


@dataclass(slots=True)
class SessionFigures:
    """The figures of a session, call by call.

    `used_values` has the values of earlier results that each call's answer used. `has_all_values`
    is None for a call whose answer used none. `prompt_tokens` is 0 for a call that is within its
    budget.
    """

    used_values: list[frozenset[str]] = field(default_factory=list)
    has_all_values: list[bool | None] = field(default_factory=list)
    prompt_tokens: list[int] = field(default_factory=list)
    user_messages: int = 0
    omitted_user_messages: int = 0

    @property
    def largest_fall(self) -> tuple[int, int]:
        """The prompt tokens of the two successive calls with the largest fall in proportion."""
        both_over_budget = [pair for pair in pairwise(self.prompt_tokens) if all(pair)]
        return min(both_over_budget, key=lambda pair: pair[1] / pair[0], default=(0, 0))

    def shares(self, parts: int) -> list[float]:
        """Divide the calls into equal parts, and return each part's steps with all values, in %."""
        size = len(self.has_all_values) / parts
        shares: list[float] = []
        for part in range(parts):
            start, end = round(part * size), round((part + 1) * size)
            steps = [has_all for has_all in self.has_all_values[start:end] if has_all is not None]
            shares.append(100 * sum(steps) / max(1, len(steps)))
        return shares


def groups_of(runs: Sequence[Run], tokens: int) -> Iterator[list[Run]]:
    """Yield groups of successive runs that have at least this many tokens together.

    Runs that are left over at the end are in no group.
    """
    counter = counter_for(None)
    group: list[Run] = []
    size = 0
    for run in runs:
        group.append(run)
        size += sum(map(counter.message, run.messages))
        if size >= tokens:
            yield group
            group, size = [], 0


def join_runs(runs: Sequence[Run]) -> Run:
    """Return one session with the messages of the runs, and only the first run's system prompt."""
    messages: list[Json] = []
    times: list[float] = []
    for number, run in enumerate(runs):
        start = times[-1] + PAUSE if times else 0.0
        for position, message in enumerate(run.messages):
            if number and message["role"] in ("system", "developer"):
                continue
            messages.append(_with_prefixed_ids(message, f"{number}-"))
            times.append(start + run.time(position) - run.time(0))
    return Run("joined", runs[0].source, runs[0].model, messages, times=times)


def _with_prefixed_ids(message: Json, prefix: str) -> Json:
    """Return a message whose ids of tool calls begin with `prefix`."""
    changed = dict(message)
    if message.get("tool_call_id"):
        changed["tool_call_id"] = prefix + str(message["tool_call_id"])
    if message.get("tool_calls"):
        changed["tool_calls"] = [
            {**call, "id": prefix + str(call.get("id"))} for call in message["tool_calls"]
        ]
    return changed


def measure(
    runs: Sequence[Run], known_uses: Sequence[frozenset[str]] | None = None
) -> SessionFigures:
    """Return the figures of runs, one after another, under the live default.

    `known_uses` has the values that each call's answer used; without it, they are found in the run.
    """
    figures = SessionFigures()
    embedder = load_embedder("")
    for run in runs:
        users = [at for at, message in enumerate(run.messages) if message["role"] == "user"]
        omitted: set[int] = set()

        def add(
            _: Case,
            turn: Turn,
            prompt: Prompt,
            users: list[int] = users,
            omitted: set[int] = omitted,
        ) -> None:
            """Add the figures of one prompt."""
            if known_uses is None:
                used_values = frozenset[str]().union(*(event.tokens for event in turn.events))
            else:
                used_values = known_uses[len(figures.used_values)]
            figures.used_values.append(used_values)
            has_all = not unseen_tokens(used_values, prompt.messages) if used_values else None
            figures.has_all_values.append(has_all)
            exceeds_budget = prompt.tokens_full > prompt.budget
            figures.prompt_tokens.append(prompt.tokens_rendered if exceeds_budget else 0)
            shown_positions = set(prompt.positions)
            omitted.update(at for at in users if at < turn.position and at not in shown_positions)

        replay_run(run, cases_named(LIVE, []), embedder, add)
        figures.user_messages += len(users)
        figures.omitted_user_messages += len(omitted)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--tokens", type=int, default=2_000_000)
    options = parser.parse_args()
    print(
        "session | calls | steps with all values: all, each tenth, % | largest fall | users omitted"
    )
    for group in groups_of(read_runs(options.runs), options.tokens):
        figures_alone = measure(group)
        figures_joined = measure([join_runs(group)], figures_alone.used_values)
        for name, figures in (("alone", figures_alone), ("joined", figures_joined)):
            before, after = figures.largest_fall
            tenths = " ".join(f"{share:5.1f}" for share in figures.shares(TENTHS))
            omitted = f"{figures.omitted_user_messages} of {figures.user_messages}"
            print(
                f"{name}, {len(group)} runs of {group[0].source} | {len(figures.prompt_tokens):,} "
                f"| {figures.shares(1)[0]:.1f}, {tenths} | {before:,} to {after:,} | {omitted}",
                flush=True,
            )


if __name__ == "__main__":
    main()
