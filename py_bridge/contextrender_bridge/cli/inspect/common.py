"""Functions that the commands share: calling the service, options, and tables.

Long because it has the functions of all these commands.
"""

import argparse
from collections.abc import Callable, Container, Sequence
from typing import Any, Literal

import httpx
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from contextrender_bridge.base.errors import CommandError, NotFound, Unreachable
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import ContextRender
from contextrender_bridge.client.connection import network_options
from contextrender_bridge.client.credentials import resolve_credentials
from contextrender_bridge.engine.text.percentage import percent
from contextrender_bridge.printing import print_json, printable

TIMEOUT_SECONDS = 60.0
ANSWER_SECONDS = 5.0
COLUMN_GAP = 2
"""The number of characters between two columns of a table."""
MIN_TEXT_WIDTH = 16
EXACT_NAME_ENDPOINTS = frozenset({"delete_session"})
"""Endpoints that require the complete name of a session."""


class ServiceClient:
    """A connection to the service, which sends the token of the settings or of this machine."""

    def __init__(self) -> None:
        """Open a connection. Raise NoCredentials if no service is known.

        Raise CommandError if nothing answers there within `ANSWER_SECONDS`.
        """
        self.url = resolve_credentials(None, None).url
        try:
            self._client = ContextRender(self.url, timeout=TIMEOUT_SECONDS, retries=0)
        except (ImportError, OSError, ValueError) as error:  # certificates, network proxies
            raise CommandError(
                f"no connection to {self.url} can be opened ({error}). Run `contextrender doctor`."
            ) from None
        # The service answers this request at once, but may need a minute for the command's own.
        try:
            health = f"{self.url}/healthz"
            httpx.get(health, timeout=ANSWER_SECONDS, **network_options(self.url))
        except httpx.HTTPError as error:
            raise self._no_answer(f"No answer from {self.url}: {error}.") from None

    def __enter__(self) -> "ServiceClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def ask(self, endpoint: str, **fields: Any) -> Json:
        """Send a request to an endpoint, and return the reply. Fields that are None are not sent.

        If there is no session with the name in the field `session`, the only session whose name
        begins with it is used, except at `EXACT_NAME_ENDPOINTS`. Raise a ContextRenderError if the
        request fails.
        """
        try:
            return self._client.call(endpoint, fields)
        except NotFound as error:
            # If it is the session that is missing, try again with its complete name.
            is_session_missing = error.message.startswith("no session ")
            if not is_session_missing or endpoint in EXACT_NAME_ENDPOINTS:
                raise
            name = self._complete_name(str(fields["session"]))
            if name == fields["session"]:
                raise
            return self.ask(endpoint, **{**fields, "session": name})
        except Unreachable as failure:
            raise self._no_answer(failure.message) from None

    def _no_answer(self, message: str) -> CommandError:
        """Return an error with this message and advice."""
        if current_settings().url:
            return CommandError(f"{message} Correct CONTEXTRENDER_URL, or unset it.")
        return CommandError(f"{message} Start it with `contextrender serve`.")

    def _complete_name(self, beginning: str) -> str:
        """Return the only session name with this beginning.

        Raise CommandError if there is no such name, or if there are or may be several.
        """
        page = self.ask("list_sessions", query=beginning, limit=200)
        names = [str(view["session"]) for view in page["sessions"]]
        matches = [name for name in names if name.startswith(beginning)] if beginning else []
        may_have_more_matches = page["next"]
        if len(matches) == 1 and not may_have_more_matches:
            return matches[0]
        message = f"{len(matches)} sessions begin with" if matches else "there is no session"
        raise CommandError(
            printable(f"{message} {beginning!r}; `contextrender sessions` lists all sessions.")
        )

    def pages(self, endpoint: str, lists: Sequence[str], **fields: Any) -> Json:
        """Request all pages of an endpoint's reply, and return them as one reply, with progress.

        The lists in the fields that `lists` names are joined. Other fields are from the first page.
        """
        result = page = self.ask(endpoint, **fields)
        with Console(stderr=True).status("") as status:
            while page["next"] is not None:
                status.update(f"call {page['next']:,} of {page['turn_count']:,}")
                page = self.ask(endpoint, **{**fields, "start": page["next"]})
                for field in lists:
                    result[field] += page[field]
        return result | {"next": None}

    def totals(self, session: str, branch: int | None = None) -> Json:
        """Return the totals of a session's answered calls. `calls` counts the recorded calls.

        The service computes the totals of a long session step by step. So repeat the same request
        until the reply is `complete` (docs/api.md, `savings`).
        """
        recorded_totals = self.ask("inspect_session", session=session)["session"]["totals"]
        fields = {"session": session, "branch": branch, "columns": False}
        while True:
            view = self.ask("savings", **fields)
            if view["complete"]:
                return {**view["totals"], "calls": recorded_totals["calls"]}


def headline_share(totals: Json) -> str:
    """Return the share of steps that had every value they used, in percent; a dash without steps.

    The console writes it in the same way.
    """
    if not totals["steps"]:
        return "–"
    return percent(1 - totals["steps_with_misses"] / totals["steps"])


def headline(totals: Json) -> str:
    """Return sentences on the share of steps that had every value they used.

    If no call of the session was recorded, a sentence says that the share is from a replay.
    """
    steps, steps_with_misses = totals["steps"], totals["steps_with_misses"]
    if not steps:
        return "No answer used an earlier result."
    end = f"{steps_with_misses:,} missed one" if steps_with_misses else "none missed any"
    share = f"{headline_share(totals)} of {steps:,} steps had every value they used; {end}."
    if totals["calls"]:
        return share
    return f"{share} This is a replay: no call of this session went through ContextRender."


def old_versions_note(count: int) -> str:
    """Return a sentence, after a space, that counts the uses of old versions of files.

    Return "" if there are none.
    """
    uses = "1 use was" if count == 1 else f"{count:,} uses were"
    return f" {uses} of an old version of a file." if count else ""


def remaining_tokens_note(row: Json) -> str:
    """Return a note on the tokens that remained when a result was omitted; "" if not known.

    The note follows the reason of the omission. `row` describes the result in a reply of `explain`
    or `misses`.
    """
    if row["remaining_tokens"] is None:
        return ""
    if row["selected_count"] is None:  # the policy omitted it for a reason of its own
        return f"; {row['remaining_tokens']:,} tokens were kept free for the next calls"
    count = row["selected_count"]
    return (
        f": it needs {row['cost']:,} tokens, {row['remaining_tokens']:,} were free after {count:,} "
        f"selected result{'' if count == 1 else 's'}"
    )


def add_session_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that name a session and a branch."""
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument(
        "--branch", type=int, metavar="N", help="which branch (the one written last)"
    )


def print_view(args: argparse.Namespace, view: Json, draw: Callable[[Json], RenderableType]) -> int:
    """Print a reply: as JSON with --json, otherwise what `draw` makes of it. Return 0."""
    if args.json:
        return print_json(view)
    Console(highlight=False).print(draw(view))
    return 0


def fit_table(
    titles: Sequence[str],
    rows: Sequence[Sequence[Text]],
    weights: Sequence[int],
    width: int,
    min_text_width: int = MIN_TEXT_WIDTH,
) -> Table:
    """Return a table of at most `width` characters, which leaves out columns that do not fit.

    `weights` has a number for each column. The first column, and every column of weight 0, has
    texts and is always shown. The other columns have numbers, and as many of them are shown as fit,
    those with the largest weights first. Long texts are cut, except in the first column, to no less
    than `min_text_width` if it can be helped.
    """
    # The width of each column if nothing in it is cut.
    full_widths = [
        COLUMN_GAP + max(cell_len(title), *(row[index].cell_len for row in rows), 0)
        for index, title in enumerate(titles)
    ]
    columns, remaining_width = _fitting_columns(full_widths, weights, width, min_text_width)
    # `_fitting_columns` reserves up to `min_text_width` for each text column, its gap included.
    # Rich divides the remaining width among these columns, and one of them may take all of it.
    max_text_width = min_text_width + remaining_width - COLUMN_GAP
    table = new_table()
    for index in columns:
        is_cut = index > 0 and not weights[index]
        justify: Literal["left", "right"] = "right" if weights[index] else "left"
        max_width = max_text_width if is_cut else None
        table.add_column(
            titles[index], justify=justify, no_wrap=True, overflow="ellipsis", max_width=max_width
        )
    for row in rows:
        table.add_row(*(row[index] for index in columns))
    return table


def _fitting_columns(
    full_widths: Sequence[int], weights: Sequence[int], width: int, min_text_width: int
) -> tuple[list[int], int]:
    """Return the indexes of the columns that `fit_table` shows, and the width that remains.

    `full_widths` has the width of each column if no text is cut, the gap included. A text column
    may be cut to `min_text_width`. `weights` has 0 for a text column; of the number columns, those
    with the largest weights are shown first.
    """
    later_columns = range(1, len(full_widths))
    text_columns = [index for index in later_columns if not weights[index]]
    number_columns = [index for index in later_columns if weights[index]]
    remaining_width = width - full_widths[0]
    remaining_width -= sum(min(full_widths[index], min_text_width) for index in text_columns)
    # Add the number columns that fit, the most important first.
    columns = [0, *text_columns]
    for index in sorted(number_columns, key=lambda index: -weights[index]):
        if full_widths[index] <= remaining_width:
            remaining_width -= full_widths[index]
            columns.append(index)
    return sorted(columns), remaining_width


def new_table(*columns: str, text_columns: Container[str] = ()) -> Table:
    """Return an empty table. Columns that are not in `text_columns` are aligned to the right."""
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in columns:
        table.add_column(name, justify="left" if name in text_columns else "right", no_wrap=True)
    return table


def agent_text(text: str, style: str = "", max_length: int | None = None) -> Text:
    """Return a text that an agent wrote as one line of at most `max_length` characters.

    It is safe to print: control characters are replaced, and markup of `rich` has no effect.
    """
    return Text(printable(text, max_length), style=style)


def short_count(tokens: float) -> str:
    """Return a number in short form, such as 1.2K for 1234."""
    for size, unit in ((1e6, "M"), (1e3, "K")):
        if tokens >= size:
            return f"{tokens / size:.1f}{unit}"
    return f"{tokens:.0f}"
