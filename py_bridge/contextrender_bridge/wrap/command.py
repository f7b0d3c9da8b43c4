"""Run an agent with ContextRender between it and its model provider.

AGENT is claude, codex, opencode, openclaw, hermes or mini. Arguments after it go to the agent. For
any other command, use: contextrender wrap --base-url-env NAME -- COMMAND. No file of yours is
changed.
"""

import argparse
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.paths import data_dir
from contextrender_bridge.base.setting_kinds import LIVE_BUDGET, LIVE_POLICY
from contextrender_bridge.base.settings import Settings, current_settings, process_environment
from contextrender_bridge.printing import print_json
from contextrender_bridge.proxy.command import add_history_options, history_options
from contextrender_bridge.wrap.agents import AGENTS
from contextrender_bridge.wrap.agents.base import Agent, Redirect, RunRequest
from contextrender_bridge.wrap.agents.command import Command
from contextrender_bridge.wrap.child import exit_status_of, run_child
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

NOT_FOUND = 127
OPTIONS_WITH_VALUE = frozenset(
    {"--budget", "--policy", "--holdout", "--pin-tools", "--bypass-tools", "--base-url-env"}
)
WRAP_OPTIONS = OPTIONS_WITH_VALUE | {"--observe"}
"""Options of wrap that no agent has."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `contextrender wrap`, which come before the agent's name."""
    add_history_options(parser)
    parser.add_argument("--observe", action="store_true", help="report, but change no prompt")
    parser.add_argument(
        "--dry-run", action="store_true", help="print the redirected command, and do not run it"
    )
    parser.add_argument(
        "--json", action="store_true", help="print the report or the --dry-run output as JSON"
    )
    parser.add_argument(
        "--base-url-env",
        action="append",
        default=[],
        metavar="NAME",
        help="for other commands: the variable with the provider's address (can be repeated)",
    )
    parser.add_argument(
        "agent", nargs="?", default="", metavar="AGENT", help=f"{', '.join(AGENTS)}, or a command"
    )
    parser.add_argument("agent_words", nargs=argparse.REMAINDER, metavar="ARGUMENTS")


def run(args: argparse.Namespace) -> int:
    """Run the agent and return its exit code. With `--dry-run`, only print the redirected run."""
    words = args.agent_words[1:] if args.agent_words[:1] == ["--"] else args.agent_words
    agent = _agent(args.agent, args.base_url_env)
    _check_option_position(args.agent, words)
    settings = _settings(args)
    # With --dry-run, the agent need not be installed.
    program = shutil.which(agent.program)
    if program is None and not args.dry_run:
        hint = f". Install it with: {agent.install}" if agent.install else "."
        raise CommandError(f"{agent.program} is not installed{hint}", NOT_FOUND)
    request = RunRequest(words, process_environment(), Path.cwd(), data_dir())
    # These routes serve to print the redirected run, and to see whether the agent will call a
    # model. A run with the proxy has routes of its own.
    routes = ProviderRoutes.example()
    redirect = agent.redirect(request, routes)
    if program is None or args.dry_run:
        return _print_redirect(agent, redirect, routes, as_json=args.json)
    # A command of the agent that calls no model runs without the proxy.
    if not redirect.makes_model_calls:
        return exit_status_of(run_child([program, *redirect.arguments], request.environment))
    if not hasattr(os, "fork"):
        raise CommandError("wrap requires Linux or macOS. On Windows, run it in WSL.")
    from contextrender_bridge.wrap.session import run_with_proxy

    return exit_status_of(run_with_proxy(agent, program, request, settings, as_json=args.json))


def _check_option_position(agent: str, words: Sequence[str]) -> None:
    """Raise CommandError if an option of wrap comes after the agent's name.

    There it would be an option of the agent, which does not know it. `words` are the agent's
    arguments. Other commands than the known agents may have such options.
    """
    if agent not in AGENTS:
        return
    for position, word in enumerate(words):
        if word == "--":  # no options follow
            return
        name = word.partition("=")[0]
        if name in WRAP_OPTIONS:
            has_separate_value = word in OPTIONS_WITH_VALUE  # unlike `--budget=6000`
            value = words[position + 1 : position + 2] if has_separate_value else []
            option = shlex.join([word, *value])
            raise CommandError(
                f"{name} is an option of wrap. Put it before the agent's name, as in "
                f"`contextrender wrap {option} {agent}`.",
                2,
            )


def _settings(args: argparse.Namespace) -> Settings:
    """Return the settings of the environment, overridden by the command line's options.

    A budget and a policy that are not set are those for live agents. Raise CommandError if an
    option is invalid.
    """
    settings = current_settings()
    changes: dict[str, Any] = {
        "mode": "observe" if args.observe else "render",
        "budget": settings.budget or LIVE_BUDGET,
        "policy": settings.policy or LIVE_POLICY,
    }
    changes |= history_options(args)
    return replace(settings, **changes)


def _agent(name: str, variables: list[str]) -> Agent:
    """Return the agent with this name. If there is none, return the installed command instead.

    `variables` are environment variables from which a command takes its provider's address. If they
    are given, the name is always a command's. Raise CommandError if the name is missing, or if it
    is neither an agent's nor an installed command's and there are no variables.
    """
    if not name:
        raise CommandError(
            "name the agent or the command to run, as in `contextrender wrap claude`.", 2
        )
    # Variables make it a plain command, even if it has the name of an agent.
    if not variables and name in AGENTS:
        return AGENTS[name]
    if not variables and shutil.which(name) is None:
        raise CommandError(
            f"{name!r} is neither an installed command nor one of wrap's agents: "
            f"{', '.join(AGENTS)}. For any other command, use: "
            "contextrender wrap --base-url-env NAME -- COMMAND",
            2,
        )
    return Command(name, variables)


def _print_redirect(
    agent: Agent, redirect: Redirect, routes: ProviderRoutes, *, as_json: bool
) -> int:
    """Print how the agent would be run, for --dry-run: its providers, variables and command.

    As text, the last line can be pasted into a shell. Return 0.
    """
    command = [agent.program, *redirect.arguments]
    if as_json:
        return print_json(
            {
                "installed": shutil.which(agent.program) is not None,
                "command": command,
                "environment": redirect.environment,
                "providers": routes.upstreams,
                "notes": redirect.notes,
            }
        )
    for name, upstream in routes.upstreams.items():
        print(f"provider {upstream} behind {routes.origin}/w/{routes.secret}/{name}")
    for note in redirect.notes:
        print(note)
    assignments = [f"{name}={shlex.quote(value)}" for name, value in redirect.environment.items()]
    print(" ".join([*assignments, shlex.join(command)]))
    sys.stdout.flush()
    return 0
