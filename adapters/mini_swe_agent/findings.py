"""The findings of the example: a file for each host, which names the next."""

from pathlib import Path


def write_findings(folder: Path) -> None:
    """Write the files of the first nine hosts."""
    for number in range(9):
        finding = f"It answers in {number * 17 + 5} ms; the next is host_{number + 1}_X.\n"
        finding += "All is well here and nothing else is to be told. " * 12
        (folder / f"host_{number}_X.txt").write_text(f"{finding}\n")
