"""How far a command is, on stderr: a bar on a terminal, a few plain lines elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PLAIN_LINES = 5


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with the number of steps just done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _plain(console, what, total)
        return
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda steps: bar.advance(task, steps)


def _plain(console: Console, what: str, total: int) -> Callable[[int], None]:
    done = lines = 0

    def advance(steps: int) -> None:
        nonlocal done, lines
        done += steps
        reached = PLAIN_LINES * done // max(total, 1)
        if reached > lines:
            lines = reached
            console.print(f"{what}: {done} of {total}", highlight=False)

    return advance
