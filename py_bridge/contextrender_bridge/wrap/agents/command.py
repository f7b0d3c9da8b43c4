"""Commands that take their provider's address from the environment: any, and mini-swe-agent."""

from __future__ import annotations

import json
from collections.abc import Sequence

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.wrap.agents.base import Agent, Redirect, RunRequest
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"
LITELLM_OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
LITELLM_ANTHROPIC = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
API_BASE = "model.model_kwargs.api_base"
"""Of mini-swe-agent's configuration; it beats LiteLLM's variables."""


class Command(Agent):
    """A command whose variables `names` hold the address."""

    def __init__(self, program: str, names: Sequence[str]) -> None:
        """Raises CommandError when no variable is named."""
        if not names:
            raise CommandError(
                "name the variable that holds the provider's address: "
                f"contextrender wrap --base-url-env OPENAI_BASE_URL -- {program} ..."
            )
        self.program = program
        self._names = names

    def redirect(self, given: RunRequest, doors: ProviderRoutes) -> Redirect:
        """By the variables, each with the provider that it names now; unset ones are told."""
        found = _variables(given, doors, *[(name,) for name in self._names])
        unset = [name for name in self._names if not given.get(name)]
        notes = [f"{name} is not set: {_usual(name)} is taken." for name in unset]
        return Redirect(list(given.arguments), found, notes=notes)


class Mini(Agent):
    """mini-swe-agent."""

    program = "mini"
    install = "uv tool install mini-swe-agent"

    def redirect(self, given: RunRequest, doors: ProviderRoutes) -> Redirect:
        """By LiteLLM's variables; an address given by `-c` is given again, in a file."""
        made = Redirect(
            list(given.arguments), _variables(given, doors, LITELLM_OPENAI, LITELLM_ANTHROPIC)
        )
        told = [word for word in given.arguments if word.startswith(f"{API_BASE}=")]
        if told:
            door = f"{doors.open(told[-1].partition('=')[2])}/v1"
            # In a file, because other users see arguments, and the address has the secret.
            file = given.folder / "mini.yaml"
            made.files[file] = json.dumps({"model": {"model_kwargs": {"api_base": door}}})
            made.arguments += ["-c", str(file)]
        return made


def _variables(given: RunRequest, doors: ProviderRoutes, *groups: Sequence[str]) -> dict[str, str]:
    """New values of variables; those of a group name the same provider, the first set one wins."""
    found: dict[str, str] = {}
    for names in groups:
        base = given.get(*names) or _usual(names[0])
        door = doors.versioned(base, messages="ANTHROPIC" in names[0].upper())
        found |= dict.fromkeys(names, door)
    return found


def _usual(name: str) -> str:
    """The provider that an unset variable's name speaks of. Raises CommandError for none."""
    for maker, address in (("ANTHROPIC", ANTHROPIC), ("OPENAI", OPENAI)):
        if maker in name.upper():
            return address
    raise CommandError(f"{name} is not set: set it to the provider's address, such as {OPENAI}.")
