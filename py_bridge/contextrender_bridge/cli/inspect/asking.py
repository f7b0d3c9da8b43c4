"""What the commands share: asking the service, options, and drawing."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Sequence
from typing import Any, Literal

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from contextrender_bridge.base.errors import CommandError, NotFound, Unreachable
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.credentials import resolve_credentials
from contextrender_bridge.printing import print_json, printable

TIMEOUT = 60.0
GAP = 2
"""Columns of the terminal between two of a table."""
LEAST_LOOSE = 16
BY_WHOLE_NAME = frozenset({"delete_session"})
"""Walkers for which a beginning is not enough."""


class Service:
    """The service as the user of this machine, or the one whose token is set, sees it."""

    def __init__(self) -> None:
        """Raises NoCredentials when no service is known."""
        self.url = resolve_credentials(None, None).url
        try:
            self._client = ContextRender(self.url, timeout=TIMEOUT, retries=0)
        except (ImportError, OSError, ValueError) as error:  # certificates, network proxies
            raise CommandError(
                f"no connection to {self.url} can be opened ({error}): `contextrender doctor`."
            ) from None

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, walker: str, **fields: Any) -> Json:
        """The report of a walker; fields that are None are left out. Raises ContextRenderError.

        Of a session the unique beginning of its name will do.
        """
        try:
            return self._client.call(walker, fields)
        except NotFound as missing:
            if walker in BY_WHOLE_NAME or not missing.message.startswith("no session "):
                raise
            whole = self._begun(str(fields["session"]))
            if whole == fields["session"]:
                raise
            return self.ask(walker, **{**fields, "session": whole})
        except Unreachable as failure:
            raise CommandError(f"{failure.message} Start it with `contextrender serve`.") from None

    def _begun(self, beginning: str) -> str:
        """The one session whose name begins so. Raises CommandError."""
        page = self.ask("list_sessions", query=beginning, limit=200)
        names = [view["session"] for view in page["sessions"]]
        found = [name for name in names if name.startswith(beginning)] if beginning else []
        if len(found) == 1 and not page["next"]:
            return str(found[0])
        told = f"{len(found)} sessions begin with" if found else "there is no session"
        raise CommandError(
            printable(f"{told} {beginning!r}; `contextrender sessions` lists all that there are.")
        )

    def pages(self, walker: str, lists: Sequence[str], **fields: Any) -> Json:
        """All pages of a walker's report as one; how far it is stands on the terminal meanwhile."""
        whole = page = self.ask(walker, **fields)
        with Console(stderr=True).status("") as status:
            while page["next"] is not None:
                status.update(f"call {page['next']:,} of {page['turn_count']:,}")
                page = self.ask(walker, **{**fields, "start": page["next"]})
                for name in lists:
                    whole[name] += page[name]
        return whole | {"next": None}

    def totals(self, session: str, branch: int | None = None) -> Json:
        """Return the totals of a session's answered calls."""
        while True:
            fields = {"session": session, "branch": branch, "columns": False}
            view = self.ask("savings", **fields)
            if view["complete"]:
                return dict(view["totals"])


def headline_share(totals: Json) -> str:
    """Return the share of steps that had every value they used, as the console writes it."""
    if not totals["steps"]:
        return "–"
    share = 1 - totals["steps_with_misses"] / totals["steps"]
    if 0.995 <= share < 1:
        return f"{min(share, 0.999):.1%}"  # A share below 1 is never written as 100%.
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"


def headline(totals: Json) -> str:
    """Return the share of steps that had every value they used, in one sentence."""
    steps, missing = totals["steps"], totals["steps_with_misses"]
    if not steps:
        return "No answer used an earlier result."
    end = f"{missing:,} missed one" if missing else "none missed any"
    return f"{headline_share(totals)} of {steps:,} steps had every value they used; {end}."


def room(row: Json) -> str:
    """Return how many tokens were free for an omitted result; `row` is of `explain` or `misses`."""
    if row["remaining_tokens"] is None:
        return ""
    if row["selected_count"] is None:
        return f"; {row['remaining_tokens']:,} tokens kept free for the next calls"
    return (
        f": needs {row['cost']}, {row['remaining_tokens']} left after {row['selected_count']} taken"
    )


def add_session(parser: argparse.ArgumentParser) -> None:
    """The options that name what to look at."""
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument(
        "--branch", type=int, metavar="N", help="which branch (the one written last)"
    )


def present(args: argparse.Namespace, view: Json, draw: Callable[[Json], RenderableType]) -> int:
    """Prints the view as JSON or as drawn."""
    if args.json:
        return print_json(view)
    Console(highlight=False).print(draw(view))
    return 0


def fitted(
    heads: Sequence[str], rows: Sequence[Sequence[Text]], weights: Sequence[int], width: int
) -> Table:
    """A table with its first column whole, and of the others those of most weight that have room.

    One of weight 0 takes what is left, cut where it is longer.
    """
    sizes = [
        GAP + max(cell_len(head), *(row[at].cell_len for row in rows), 0)
        for at, head in enumerate(heads)
    ]
    loose = [at for at, weight in enumerate(weights) if at and not weight]
    room, kept = width - sizes[0] - sum(min(sizes[at], LEAST_LOOSE) for at in loose), {0, *loose}
    for at in sorted(range(1, len(heads)), key=lambda at: -weights[at]):
        if weights[at] and sizes[at] <= room:
            room -= sizes[at]
            kept.add(at)
    table = table_of()
    for at in sorted(kept):
        justify: Literal["left", "right"] = "right" if weights[at] else "left"
        most = room + LEAST_LOOSE - GAP if at in loose else None
        table.add_column(
            heads[at], justify=justify, no_wrap=True, overflow="ellipsis", max_width=most
        )
    for row in rows:
        table.add_row(*(row[at] for at in sorted(kept)))
    return table


def table_of(*columns: str, left: Container[str] = ()) -> Table:
    """An empty table; its columns are of figures but for those in `left`."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in left else "right", no_wrap=True)
    return table


def plain(text: str, style: str = "", longest: int | None = None) -> Text:
    """A text of an agent's: never markup, never control characters."""
    return Text(printable(text, longest), style=style)


def thousands(tokens: float) -> str:
    """1234 as 1.2K."""
    for size, unit in ((1e6, "M"), (1e3, "K")):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}"
    return f"{tokens:.0f}"
