"""Scores a case's prompts along a run, as they come."""

from collections.abc import Sequence

from contextrender_bridge.base.model_table import window_of

from engine.costs import NOTHING_USED, Usage
from evaluation.caches import caches, no_bills
from evaluation.cases import Case
from evaluation.prompts import Prompts, Unit
from evaluation.runs import Run
from evaluation.scores import CaseScore, Prompt, RunScore, Turn


class Biller:
    """Adds up what a run's prompts are billed by every provider's rule."""

    def __init__(self, prompts: Prompts) -> None:
        """Bills the prompts with what stands before them all."""
        self._prompts = prompts
        self._caches = caches()
        self.bills = no_bills()

    def add(self, units: Sequence[Unit], time: float) -> None:
        """Bills the next prompt, sent at that second."""
        whole = self._prompts.billed(units)
        self.bills = {
            rule: self.bills[rule].plus(cache.bill(whole, time))
            for rule, cache in self._caches.items()
        }


class Scorer:
    """Scores one case's prompts along a run, each against the one before."""

    def __init__(self, run: Run, case: Case, prompts: Prompts) -> None:
        """Counts with `prompts`, which the run's cases may share."""
        self.score = CaseScore(case)
        self._run = run
        self._prompts = prompts
        self._units: list[Unit] = []
        self._biller = Biller(prompts)

    def add(self, turn: Turn, prompt: Prompt) -> None:
        """Scores the next prompt."""
        self._units, sent = self._prompts.send(self._units, prompt.messages)
        output = self._prompts.tokens([self._run.messages[turn.position]])
        self.score.add(turn, prompt, sent, output)
        self._biller.add(self._units, self._run.time(turn.position))
        self.score.bills = self._biller.bills


def score_of(run: Run, cases: list[CaseScore], prompts: Prompts) -> RunScore:
    """The score of a run, whose prompts were counted by `prompts`.

    Full history is billed at most the model's window a call: no agent sends more.
    """
    full, sizes, before, read = NOTHING_USED, list[int](), 0, 0
    units, biller, window = list[Unit](), Biller(prompts), window_of(run.model)
    for position, message in enumerate(run.messages):
        if message["role"] == "assistant":
            fresh, _ = prompts.send([], run.messages[read:position])
            units += prompts.within(fresh, window - before) if window else fresh
            now = before + sum(unit.tokens for unit in fresh)
            full = full.plus(Usage(now, before, prompts.tokens([message])))
            biller.add(units, run.time(position))
            sizes.append(now)
            before, read = now, position
    score = RunScore(run.id, run.source, run.model, cases, run.task, full, sizes)
    score.full_bills = biller.bills
    return score
