"""Run real agents under policies and budgets: python bench/live AGENT --model M --policy A,B.

The agent runs as it is, in its own Python, with its model address set to a gateway here. The
gateway makes every request's history fit through ContextRender, sends it on through LiteLLM, and
counts the tokens. `full` always runs too: it gives the cached fraction and the cost of 1.

Agents, their data and their models are yours to have: what is missing is said first. The agent
`synthetic` needs nothing and proves the harness only: its task is made up and its model a script.
"""

import argparse
import logging
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from agents import AGENTS, Agent, AgentFailed
from contextrender_bridge import embedded
from contextrender_bridge.errors import CommandError
from gateway import gateway
from models import Complete, Script, missing_keys, through_litellm
from outcomes import FULL, Outcome, table, to_csv, to_json

from evaluation.cases import Case, cases_of
from evaluation.command import count
from evaluation.progress import progress


def main() -> int:
    """Checks, runs and prints."""
    args = _arguments()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    agent = AGENTS[args.agent].at(args.python, args.root, args.split)
    try:
        cases = cases_of(args.policy, args.budget)
        missing = agent.missing() or _without_model(args)
        if missing:
            raise CommandError(missing)
        tasks = agent.tasks(args.limit)
        outcomes = run(agent, tasks, cases, args)
    except (CommandError, AgentFailed) as error:
        print(f"bench/live: {error}", file=sys.stderr)
        return 1
    rows = table(outcomes, cases)
    print(rows.text(agent.title, args.model, agent.metric))
    if args.json:
        args.json.write_text(to_json(rows, outcomes, agent.name, args.model, agent.metric))
    if args.csv:
        args.csv.write_text(to_csv(rows, agent.metric))
    return 0


def run(
    agent: Agent, tasks: list[str], cases: list[Case], args: argparse.Namespace
) -> list[Outcome]:
    """Every task under every case, and once under full history."""
    budgets = list(dict.fromkeys(case.budget for case in cases))
    wanted = [*dict.fromkeys([Case(FULL, budgets[0]), *(c for c in cases if c.policy != FULL)])]
    outcomes = []
    with (
        tempfile.TemporaryDirectory(prefix="contextrender-live-") as folder,
        embedded(Path(folder)) as service,
        service.client(timeout=300) as client,
        progress("Running tasks", len(wanted) * len(tasks)) as advance,
    ):
        for case in wanted:
            for task in tasks:
                complete: Complete = (
                    Script(args.seed) if args.model == "scripted" else through_litellm(args.model)
                )
                score = 0.0
                with gateway(client, complete, case, task) as seat:
                    try:
                        score = agent.run(task, seat.url, args.model, args.steps)
                    except AgentFailed as error:
                        seat.meter.failures.append("AgentFailed")
                        print(f"task {task}, {case}: {error}", file=sys.stderr)
                outcomes.append(Outcome(case, task, score, seat.meter))
                advance(1)
    return outcomes


def _without_model(args: argparse.Namespace) -> str:
    if args.model == "scripted" and args.agent != "synthetic":
        return f"the model is missing: name a LiteLLM model with --model to run {args.agent}."
    lacking = [] if args.model == "scripted" else missing_keys(args.model)
    return f"access to {args.model} is missing: set {', '.join(lacking)}." if lacking else ""


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/live", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("agent", choices=AGENTS)
    parser.add_argument("--model", default="scripted", help="a LiteLLM model (%(default)s)")
    parser.add_argument("--policy", default="contextrender,prune", metavar="A,B")
    parser.add_argument("--budget", default="6000", metavar="N,M", help="tokens (%(default)s)")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="the agent's own")
    parser.add_argument("--root", type=Path, metavar="DIR", help="the agent's checkout and data")
    parser.add_argument("--split", default="", help="the tasks' split (the agent's test split)")
    parser.add_argument("--limit", type=count, metavar="N", help="the first N tasks only")
    parser.add_argument("--steps", type=count, default=50, help="model calls a task (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the scripted model")
    parser.add_argument("--json", type=Path, metavar="OUT")
    parser.add_argument("--csv", type=Path, metavar="OUT")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
