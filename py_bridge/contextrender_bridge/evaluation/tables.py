"""Tables for the terminal and for HTML pages, and the pages themselves."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from rich import box
from rich.console import Console
from rich.markup import escape as plain
from rich.table import Table

PLAIN_WIDTH = 136
STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;"
    "color:#1b1f24;background:#fff}"
    "h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2.5rem}.wide{overflow-x:auto}"
    "table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}"
    "th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid #e3e6ea}"
    "th:first-child,td:first-child{text-align:left}th{background:#f6f8fa}"
    "meter{width:20rem}caption{text-align:left}"
    "figure{margin:1.5rem 0}figure svg{max-width:100%;height:auto}figcaption{color:#57606a}"
    "pre{background:#f6f8fa;padding:.7rem;overflow-x:auto}"
)


def console() -> Console:
    """Return a console for standard output.

    If there is no terminal, or it reports a width of 0, the console is wide enough for tables.
    """
    out = Console(highlight=False)
    has_width = out.is_terminal and out.width > 0
    return out if has_width else Console(highlight=False, width=PLAIN_WIDTH)


def percent_or_dash(share: float | None) -> str:
    """Return a share as a percentage; a dash for None."""
    return "-" if share is None else f"{share:.1%}"


@dataclass(frozen=True)
class Rows:
    """A table whose first `text_columns` columns are aligned left, the others right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: int = 1

    def __rich__(self) -> Table:
        """Return the table as `rich` prints it."""
        table = Table(
            title=self.title or None,
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            pad_edge=False,
            title_justify="left",
            title_style="bold",
        )
        for index, column in enumerate(self.columns):
            justify: Literal["left", "right"] = "left" if index < self.text_columns else "right"
            # In a narrow terminal, heads and names are wrapped rather than cut.
            table.add_column(column, justify=justify, overflow="fold")
        for row in self.rows:
            table.add_row(*map(plain, row))
        return table

    @property
    def html(self) -> str:
        """The table in HTML, after its title."""
        head = _row("th", self.columns)
        body = "".join(_row("td", row) for row in self.rows)
        title = f"<h2>{escape(self.title)}</h2>" if self.title else ""
        return f'{title}<div class="wide"><table>{head}{body}</table></div>'


def _row(tag: str, cells: Sequence[str]) -> str:
    """Return a row of an HTML table. `tag` is `th` for the head, `td` for other rows."""
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def page(title: str, parts: Iterable[str]) -> str:
    """Return an HTML page that opens offline, refers to no other file and runs no script."""
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>ContextRender: {escape(title)}</title><style>{STYLE}</style>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</html>\n"
    )


def paragraphs(sentences: Iterable[str]) -> str:
    """Return sentences as HTML, each in a paragraph."""
    return "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
