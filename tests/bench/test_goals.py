"""Benchmarks tell which goals a run has missed, and end with 1."""

import pytest

from bench.figures import Goal, told


def missed(goals: list[Goal]) -> list[str]:
    return [goal.what for goal in goals if not goal.met]


def test_the_exit_code_is_1_where_one_is_missed_or_none_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert told([Goal("a", 1, 2), Goal("b", 2, 2, least=True)]) == 0
    assert told([Goal("a", 1, 2), Goal("c", 2.5, 2)]) == 1
    assert "MISSED c: 2.50, goal at most 2" in capsys.readouterr().out
    assert told([]) == 1
