"""A wrapped agent and a bare one on the same tasks: the bill, the steps, and what was solved.

    python -m bench.live [--tasks 3]                               # a scripted model, no key
    python -m bench.live --model gpt-4.1-mini                      # OPENAI_API_KEY
    python -m bench.live --model claude-sonnet-4-5 --upstream https://api.anthropic.com \\
        --base-url-env ANTHROPIC_BASE_URL --agent "claude --model MODEL -p TASK"

Each task is run twice, as it is and by `contextrender wrap`, which starts from an empty store. What
the provider's replies say was used is counted before the provider, and priced by LiteLLM's table;
so any agent can take part that `wrap` knows, or that takes its provider's address from a variable.
In `--agent`, TASK and MODEL stand for the question and the model; it works in the task's folder,
and its answer is what it prints. Unless given, it is the agent here, agent.py.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from contextrender_bridge.base.prices import Prices
from contextrender_bridge.wrap.agents import AGENTS

from bench.live.provider import SCRIPTED, metered
from bench.live.tasks import SHEETS, Task, made
from bench.services import Service, running
from tests.support.command import PROCESS

ROOT = Path(__file__).resolve().parents[2]
OPENAI = "https://api.openai.com/v1"
PRICED_AS = "gpt-4.1"
"""What the scripted model's tokens are priced as."""
OWN_AGENT = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).parent / 'agent.py'))}"
TASK_SECONDS = 3600
BARE, WRAPPED = "bare", "wrapped"


@dataclass(frozen=True)
class Run:
    """One task done one way. `dollars` is None where the model's price is not known."""

    task: int
    way: str
    solved: bool
    steps: int
    prompt: int
    cached: int
    output: int
    dollars: float | None
    failed: int


def run(task: Task, number: int, way: str, args: argparse.Namespace, service: Service) -> Run:
    """The agent on one task, in a copy of its folder."""
    with metered(args.upstream) as meter:
        known = {"TASK": task.prompt, "MODEL": args.model}
        command = [known.get(word, word) for word in shlex.split(args.agent)]
        environment = {
            **os.environ,
            args.base_url_env: meter.url + ("/v1" if args.upstream.endswith("/v1") else ""),
            "LIVE_MODEL": args.model,
            "OPENAI_API_KEY": os.environ.get("OPENAI_API_KEY", "none"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "py_bridge")]),
        }
        if way == WRAPPED:
            environment |= {
                "CONTEXTRENDER_URL": service.url,
                "CONTEXTRENDER_TOKEN": service.token,
                "CONTEXTRENDER_DEADLINE": "60",
            }
            by_name = [] if command[0] in AGENTS else ["--base-url-env", args.base_url_env, "--"]
            command = [*PROCESS, "wrap", *args.wrap, *by_name, *command]
        done = subprocess.run(
            command,
            cwd=task.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TASK_SECONDS,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            print(f"task {number}, {way}: {done.stderr.strip()[-500:]}", file=sys.stderr)
        price = Prices.of(()).of_model(PRICED_AS if args.upstream == SCRIPTED else args.model)
        return Run(
            number,
            way,
            not done.returncode and task.solved(done.stdout),
            len(meter.used),
            sum(used.prompt for used in meter.used),
            sum(used.read for used in meter.used),
            sum(used.output for used in meter.used),
            None if price is None else sum(map(price.of, meter.used)),
            meter.failed,
        )


def table(runs: Sequence[Run]) -> list[str]:
    """Both ways' sums side by side, and the wrapped one's share of the bare one's."""
    sums: dict[str, dict[str, float]] = {}
    for way in (BARE, WRAPPED):
        own = [one for one in runs if one.way == way]
        sums[way] = {
            "solved": sum(one.solved for one in own),
            "steps": sum(one.steps for one in own),
            "prompt tokens": sum(one.prompt for one in own),
            "from the cache": sum(one.cached for one in own),
            "output tokens": sum(one.output for one in own),
            "calls refused": sum(one.failed for one in own),
        }
        if all(one.dollars is not None for one in own):
            sums[way]["dollars"] = sum(one.dollars or 0.0 for one in own)
    lines = [f"{'':<16}{BARE:>12}{WRAPPED:>12}{'times':>8}"]
    for what, bare in sums[BARE].items():
        wrapped = sums[WRAPPED][what]
        shown = [f"{one:,.4f}" if what == "dollars" else f"{one:,.0f}" for one in (bare, wrapped)]
        times = f"{wrapped / bare:.2f}" if bare else "-"
        lines.append(f"{what:<16}{shown[0]:>12}{shown[1]:>12}{times:>8}")
    return lines


def main() -> int:
    """Runs and prints; 1 where what is needed is missing."""
    args = _arguments()
    with tempfile.TemporaryDirectory(prefix="bench-live-") as place, running() as service:
        runs: list[Run] = []
        for number in range(args.tasks):
            for way in (BARE, WRAPPED):
                task = made(Path(place) / way, number, args.sheets)
                runs.append(run(task, number, way, args, service))
                print(f"task {number} {way}: {asdict(runs[-1])}", file=sys.stderr)
    priced = f", priced as {PRICED_AS}" if args.upstream == SCRIPTED else ""
    print(f"{args.tasks} tasks, {args.model}{priced}\n" + "\n".join(table(runs)))
    if args.json:
        made_of: dict[str, Any] = {"model": args.model, "runs": [asdict(one) for one in runs]}
        args.json.write_text(json.dumps(made_of, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.live", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", default=SCRIPTED, help="what the agent asks for (%(default)s)")
    parser.add_argument("--upstream", default="", help=f"the provider's address ({OPENAI})")
    parser.add_argument("--agent", default=f"{OWN_AGENT} TASK", metavar="COMMAND")
    parser.add_argument("--base-url-env", default="OPENAI_BASE_URL", metavar="NAME")
    parser.add_argument("--wrap", type=shlex.split, default=[], metavar="OPTIONS", help="of wrap")
    parser.add_argument("--tasks", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--sheets", type=int, default=SHEETS, help="of each (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write every run's figures")
    args = parser.parse_args()
    if not args.upstream:
        args.upstream = SCRIPTED if args.model == SCRIPTED else OPENAI
    if args.upstream == OPENAI and not os.environ.get("OPENAI_API_KEY"):
        parser.error(f"set OPENAI_API_KEY to ask {args.model}")
    return args


if __name__ == "__main__":
    sys.exit(main())
