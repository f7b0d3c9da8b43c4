"""The first-run check's call of adapters in JavaScript: Node runs the client's own trial."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from contextrender_bridge.adapters.mending import ToMend
from contextrender_bridge.base.wire import Json

CLIENT = "@contextrender/client"
SECONDS = 60
PROGRAM = f"""
import {{ readFileSync }} from "node:fs";
import {{ tryAdapter }} from "{CLIENT}/trials";
const {{ name, history, settings }} = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(await tryAdapter(name, history, settings)));
"""


def package(name: str) -> str:
    """An npm package and its version, as this folder's programs find it. Raises ToMend."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        told = folder / "node_modules" / name / "package.json"
        if told.is_file():
            return f"{name} {json.loads(told.read_text(encoding='utf-8'))['version']}"
    raise ToMend(f"{name} is not installed for {here}: run this check in your agent's folder.")


def trial(
    name: str, history: Sequence[Json], settings: Mapping[str, Any]
) -> tuple[list[Any], list[str]]:
    """What the adapter would send, and why it sent a history whole. Raises ToMend."""
    node = shutil.which("node")
    if node is None:
        raise ToMend("there is no `node` on the path: Node 20 or newer runs the check's call.")
    given = {**settings, "deadline": 1000 * settings["deadline"]}
    done = subprocess.run(
        [node, "--input-type=module", "--eval", PROGRAM],
        input=json.dumps({"name": name, "history": history, "settings": given}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode:
        reasons = [line.strip() for line in done.stderr.splitlines() if "Error" in line]
        raise ToMend(f"the adapter cannot be run: {next(iter(reasons), 'no reason given')}")
    told = json.loads(done.stdout.splitlines()[-1])
    return told["sent"], list(told["failures"])
