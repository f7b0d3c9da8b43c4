"""Explains one model call of a replay: what it was shown, what not, and why."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from contextrender_bridge.client.replies import ExplainView, ResultView, ValueView
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from engine.call.rebuilt import ordinal
from evaluation.cases import Case
from evaluation.report import table
from evaluation.scores import Prompt, Turn

OMITTED_ROWS = 8
RESULTS_WITH_USES = 4
USES_EACH = 3
VALUES_EACH = 4


@dataclass(slots=True)
class Telling:
    """Watches a replay for the call that tells most: where `ours` showed what `baseline` lost.

    `ours` must be among the cases, before `baseline`. Afterwards `run`, its number, and `turn`
    name the call: of the calls with most such results the latest, else the last one watched.
    """

    ours: Case
    baseline: Case
    run: int = 0
    turn: Turn | None = None
    _current: int = 0
    _most: int = -1
    _seen: dict[int, frozenset[int]] = field(default_factory=dict)

    def begin(self, run: int) -> None:
        """The prompts that follow are this run's."""
        self._current = run

    def watch(self, case: Case, turn: Turn, prompt: Prompt) -> None:
        """Takes note of a prompt."""
        if case == self.ours:
            self._seen[turn.number] = prompt.visible
        elif case == self.baseline:
            drawn_on = {event.position for event in turn.events}
            kept = drawn_on & self._seen.pop(turn.number) - prompt.visible
            if len(kept) >= self._most:
                self.run, self.turn, self._most = self._current, turn, len(kept)


def print_explanation(out: Console, run: str, view: ExplainView, drawn_on: Collection[int]) -> None:
    """Prints the reply of `explain`; `drawn_on` are positions of results its call then drew on."""
    results = view["results"]
    shown = sorted((r for r in results if r["order"] is not None), key=lambda r: r["order"] or 0)
    tokens = view["tokens"]
    out.print(
        f"[bold]One call explained: call {view['turn']} of {escape(run)}[/bold]\n"
        f"{len(shown)} of {len(results)} results shown, {tokens['after']:,} of "
        f"{tokens['before']:,} tokens, budget {view['budget']:,}.\n"
        "* marks those the call then used; 1st, 2nd ... is the order of selection."
    )
    out.print(_results_table(results, shown, drawn_on))
    left = (result["reason"] for result in results if result["order"] is None)
    reasons = Counter(reason.partition(":")[0] for reason in left)
    for reason, number in reasons.most_common():
        out.print(f"{number} omitted: {reason}.")
    _print_uses(out, [r for r in shown if r["position"] in drawn_on] or shown)


def _results_table(
    results: Sequence[ResultView], shown: Sequence[ResultView], drawn_on: Collection[int]
) -> Table:
    omitted = [r for r in results if r["order"] is None]
    omitted.sort(key=lambda r: (r["position"] not in drawn_on, -(r["usefulness"] or 0)))
    made = table("", "", "#", "tool", "age", "c", "s", "U", "score", "tokens", left=3, folds="tool")
    made.add_column("shown", justify="left")
    for result in [*shown, *omitted[:OMITTED_ROWS]]:
        made.add_row(
            "*" if result["position"] in drawn_on else "",
            str(result["position"]),
            escape(result["name"]),
            str(result["age"]),
            _figure(result["reuse"]),
            _figure(result["relevance"]),
            _figure(result["usefulness"]),
            _figure(result["score"]),
            f"{result['tokens']:,}",
            _verdict(result),
            style="" if result["order"] is not None else "dim",
        )
    if len(omitted) > OMITTED_ROWS:
        rest = omitted[OMITTED_ROWS:]
        sizes = f"{sum(r['tokens'] for r in rest):,}"
        made.add_row("", "", f"{len(rest)} more", *[""] * 5, sizes, "omitted", style="dim")
    return made


def _verdict(result: ResultView) -> str:
    order = result["order"]
    return str(result["shown"]) if order is None else f"{result['shown']}, {ordinal(order)}"


def _print_uses(out: Console, results: Sequence[ResultView]) -> None:
    used = sorted((r for r in results if r["uses"]), key=lambda r: -r["reuse"])
    if not used:
        return
    out.print("\n[bold]The uses behind c[/bold]: a value that n results hold counts 1/n")
    for result in used[:RESULTS_WITH_USES]:
        uses = result["uses"]
        out.print(
            f"\n  message {result['position']}, {escape(result['name'])}: "
            f"c = {result['reuse']:.2f}, uses: {len(uses)}"
        )
        for use in reversed(uses[-USES_EACH:]):
            what = escape(use["name"]) or "its text"
            out.print(f"    turn {use['turn']}, {what}: {_values(use['values'])}", soft_wrap=True)


def _values(values: Sequence[ValueView]) -> str:
    told = [f"{escape(str(v['value']))} 1/{v['results']}" for v in values[:VALUES_EACH]]
    if len(values) > VALUES_EACH:
        told.append(f"{len(values) - VALUES_EACH} more")
    return ", ".join(told)


def _figure(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"
