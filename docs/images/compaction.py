"""Draws compaction.svg from what `contextrender audit --json` says of compactions.

contextrender audit --json > audit.json && python docs/images/compaction.py audit.json
"""

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WIDTH, ROW, LEFT, TOP = 760, 38, 250, 44
FONT = 'font-family="system-ui, sans-serif" fill="#6b7280"'
GREY, BLUE = "#9aa3b2", "#2f6fde"


def draw(lost: dict[str, Any]) -> str:
    """Return the picture: a bar for each context, with its share of steps that had every value."""
    rows = [
        ("summary and files put back", lost["summary_had_all"], GREY),
        (f"after {lost['read_again_calls']} results read again", lost["read_again"], GREY),
    ]
    rows += [
        (f"ContextRender, {name if name == 'auto' else f'{int(name):,} tokens'}", share, BLUE)
        for name, share in lost["shown"].items()
    ]
    bars = "".join(_bar(place, *row) for place, row in enumerate(rows))
    head = (
        f'<text x="12" y="22" font-size="15" {FONT}>Steps after a compaction with every value they '
        f"used from before it: {lost['steps']} steps, {lost['measured']} compactions</text>"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + ROW * len(rows)}">'
        f"<title>What is left after a compaction</title>{head}{bars}</svg>\n"
    )


def _bar(place: int, name: str, share: float, colour: str) -> str:
    y, width = TOP + ROW * place, (WIDTH - LEFT - 70) * share
    return (
        f'<text x="{LEFT - 12}" y="{y + 18}" font-size="14" text-anchor="end" {FONT}>{name}</text>'
        f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="26" rx="4" fill="{colour}"/>'
        f'<text x="{LEFT + width + 8:.1f}" y="{y + 18}" font-size="14" {FONT}>{share:.0%}</text>'
    )


if __name__ == "__main__":
    audit = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    (HERE / "compaction.svg").write_text(draw(audit["compactions"]), encoding="utf-8")
