"""Draws one-run.svg: what each model call of the demo's run is sent, whole and within a budget.

python docs/images/one_run.py
"""

import json
import tempfile
from pathlib import Path

import contextrender_bridge
from contextrender_bridge.embedded import embedded

HERE = Path(__file__).parent
RUN = Path(contextrender_bridge.__file__).parent / "data" / "demo.jsonl"
BUDGET, POLICY = 6_000, "contextrender_frozen"
WIDTH, HEIGHT, LEFT, TOP = 760, 250, 58, 46
FONT = 'font-family="system-ui, sans-serif"'


def measured() -> list[tuple[int, int]]:
    """Tokens of the history before each model call, and those that are sent."""
    messages = json.loads(RUN.read_text(encoding="utf-8").splitlines()[0])["messages"]
    calls = [at for at, message in enumerate(messages) if message["role"] == "assistant"]
    asked = {"budget": BUDGET, "policy": POLICY, "want": "plan"}
    with tempfile.TemporaryDirectory() as data, embedded(Path(data)) as service:
        client = service.client()
        replies = [client.render("run", messages[:at], **asked) for at in calls]
    return [(reply["tokens"]["before"], reply["tokens"]["after"]) for reply in replies]


def drawn(calls: list[tuple[int, int]]) -> str:
    """The picture."""
    most = max(before for before, _ in calls)
    step = (WIDTH - LEFT - 12) / len(calls)
    bars = "".join(
        _bar(LEFT + step * at, step * 0.8, tokens, most, colour)
        for at, both in enumerate(calls)
        for tokens, colour in zip(both, ("#c9ced6", "#2f6fde"), strict=True)
    )
    before, after = (sum(tokens) for tokens in zip(*calls, strict=True))
    head = (
        f'<text x="{LEFT}" y="20" font-size="14" {FONT} fill="#6b7280">'
        f"{len(calls)} model calls of one run: {before:,} tokens whole, "
        f"{after:,} within a budget of {BUDGET:,}</text>"
    )
    marks = "".join(_mark(share * most, most) for share in (0.5, 1))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT + TOP + 12}">'
        f"<title>Tokens sent in each model call</title>{head}{marks}{bars}</svg>\n"
    )


def _bar(x: float, width: float, tokens: int, most: int, colour: str) -> str:
    height = HEIGHT * tokens / most
    y = TOP + HEIGHT - height
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}"/>'
    )


def _mark(tokens: float, most: int) -> str:
    y = TOP + HEIGHT - HEIGHT * tokens / most
    return (
        f'<text x="{LEFT - 6}" y="{y + 4:.1f}" font-size="12" text-anchor="end" {FONT} '
        f'fill="#6b7280">{tokens:,.0f}</text>'
    )


if __name__ == "__main__":
    picture = drawn(measured())
    (HERE / "one-run.svg").write_text(picture, encoding="utf-8")
    print(picture.split("</text>")[0].rpartition(">")[2])
