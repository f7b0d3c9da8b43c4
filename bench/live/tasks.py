"""Scripted tasks: folders of long sheets, and a question whose answer needs some of them."""

import random
from dataclasses import dataclass
from pathlib import Path

SHEETS = 24
ASKED = 4
ROWS = 110


@dataclass(frozen=True)
class Task:
    """`prompt` is for the agent, which works in `folder`; a right answer has all of `right`."""

    folder: Path
    prompt: str
    right: tuple[str, ...]

    def solved(self, said: str) -> bool:
        return all(value in said for value in self.right)


def made(folder: Path, number: int, sheets: int = SHEETS) -> Task:
    """Task `number`, always the same, in a folder of its own below `folder`."""
    chosen = random.Random(number)
    place = folder / f"task-{number}"
    place.mkdir(parents=True)
    prices = {}
    for sheet in range(sheets):
        prices[sheet] = f"PRICE_{chosen.randrange(10**6, 10**7)}"
        rows = [
            f"row {row}: batch B{chosen.randrange(10**5)} checked by inspector {row % 7}, passed"
            for row in range(ROWS)
        ]
        rows.insert(chosen.randrange(ROWS), f"part_{sheet:02} costs {prices[sheet]}")
        (place / f"sheet_{sheet:02}.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    asked = sorted(chosen.sample(range(sheets), min(ASKED, sheets)))
    parts = ", ".join(f"part_{part:02}" for part in asked)
    prompt = (
        "Read every sheet in this folder in order, sheet_00.txt to "
        f"sheet_{sheets - 1:02}.txt: each has the price of the part with its number. Then answer "
        f"with the prices of {parts}, each as it is written in its sheet."
    )
    return Task(place, prompt, tuple(prices[part] for part in asked))
