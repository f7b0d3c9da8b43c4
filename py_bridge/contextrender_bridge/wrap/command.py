"""Run an agent with ContextRender between it and its model provider.

AGENT is claude, codex, opencode, openclaw, hermes or mini; what follows is the agent's own. For
any other command: contextrender wrap --base-url-env NAME -- COMMAND. No file of yours is changed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from contextrender_bridge.base.settings import Settings, current_settings, environment_without
from contextrender_bridge.printing import print_json
from contextrender_bridge.proxy.command import add_history_options, history_options
from contextrender_bridge.wrap.agents import AGENTS
from contextrender_bridge.wrap.agents.base import Agent, Redirect, RunRequest
from contextrender_bridge.wrap.agents.command import Command
from contextrender_bridge.wrap.child import end_like, run_child
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

NOT_FOUND = 127
WITH_VALUE = frozenset(
    {"--budget", "--policy", "--holdout", "--pin-tools", "--bypass-tools", "--base-url-env"}
)
OWN_OPTIONS = WITH_VALUE | {"--observe"}
"""Options of wrap that no agent has."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `contextrender wrap`; they come before the agent's name."""
    add_history_options(parser)
    parser.add_argument("--observe", action="store_true", help="change nothing, only report")
    parser.add_argument("--dry-run", action="store_true", help="only show what it would do")
    parser.add_argument(
        "--json", action="store_true", help="print the report, or what --dry-run shows, as JSON"
    )
    parser.add_argument(
        "--base-url-env",
        action="append",
        default=[],
        metavar="NAME",
        help="for any command: the variable with the provider's address (can be repeated)",
    )
    parser.add_argument(
        "agent", nargs="?", default="", metavar="AGENT", help=f"{', '.join(AGENTS)}, or a command"
    )
    parser.add_argument("agent_words", nargs=argparse.REMAINDER, metavar="ARGUMENTS")


def run(args: argparse.Namespace) -> int:
    """Runs the agent; its exit code."""
    words = args.agent_words[1:] if args.agent_words[:1] == ["--"] else args.agent_words
    agent = _agent(args.agent, args.base_url_env)
    _check_place(args.agent, words)
    settings = _settings(args)
    program = shutil.which(agent.program)
    if program is None and not args.dry_run:
        how = f": {agent.install}" if agent.install else "."
        raise CommandError(f"{agent.program} is not installed{how}", NOT_FOUND)
    given = RunRequest(words, environment_without(), Path.cwd(), data_dir())
    doors = ProviderRoutes.imagined()
    made = agent.redirect(given, doors)
    if program is None or args.dry_run:
        return _show(agent, made, doors, as_json=args.json)
    if not made.stands_between:
        return end_like(run_child([program, *made.arguments], given.environment))
    if not hasattr(os, "fork"):
        raise CommandError("wrap needs Linux or macOS; on Windows, run it in WSL.")
    from contextrender_bridge.wrap.session import run_between

    return end_like(run_between(agent, program, given, settings, as_json=args.json))


def _check_place(agent: str, words: Sequence[str]) -> None:
    """Raise CommandError for an option of wrap's that stands behind the agent's name."""
    if agent not in AGENTS:
        return
    for place, word in enumerate(words):
        if word == "--":
            return
        name = word.partition("=")[0]
        if name in OWN_OPTIONS:
            value = words[place + 1 : place + 2] if word in WITH_VALUE else []
            own = shlex.join([word, *value])
            raise CommandError(
                f"{name} is an option of wrap: put it before the agent's name, as in "
                f"`contextrender wrap {own} {agent}`.",
                2,
            )


def _settings(args: argparse.Namespace) -> Settings:
    """The proxy's settings, as the command line has them. Raises CommandError."""
    own = current_settings()
    live = {"budget": own.budget or LIVE_BUDGET, "policy": own.policy or LIVE_POLICY}
    mode = "observe" if args.observe else "render"
    return replace(own, mode=mode, **{**live, **history_options(args)})


def _agent(name: str, variables: list[str]) -> Agent:
    if not variables and name in AGENTS:
        return AGENTS[name]
    if not variables and shutil.which(name) is None:
        raise CommandError(
            f"wrap knows {', '.join(AGENTS)}; for another command: "
            f"contextrender wrap --base-url-env NAME -- COMMAND",
            2,
        )
    return Command(name, variables)


def _show(agent: Agent, made: Redirect, doors: ProviderRoutes, *, as_json: bool) -> int:
    command = [agent.program, *made.arguments]
    if as_json:
        return print_json(
            {
                "installed": shutil.which(agent.program) is not None,
                "command": command,
                "environment": made.environment,
                "providers": doors.upstreams,
                "notes": made.notes,
            }
        )
    for name, upstream in doors.upstreams.items():
        print(f"provider {upstream} behind {doors.origin}/w/{doors.secret}/{name}")
    for note in made.notes:
        print(note)
    added = [f"{name}={shlex.quote(value)}" for name, value in made.environment.items()]
    print(" ".join([*added, shlex.join(command)]))
    sys.stdout.flush()
    return 0
