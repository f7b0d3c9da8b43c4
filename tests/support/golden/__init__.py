"""Worked cases of the method's rules, as JSON files beside this one."""

import json
from pathlib import Path
from typing import Any


def golden(name: str) -> Any:
    return json.loads((Path(__file__).parent / f"{name}.json").read_text())
