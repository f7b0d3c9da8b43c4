"""Any command that takes its provider's address from the environment."""

from __future__ import annotations

from collections.abc import Sequence

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.wrap.agents.base import Given, Redirect
from contextrender_bridge.wrap.doors import Doors, with_version

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"


class Command:
    """A command whose variables `names` hold the address."""

    name = "command"
    install = ""

    def __init__(self, program: str, names: Sequence[str]) -> None:
        """Raises CommandError when no variable is named."""
        if not names:
            raise CommandError(
                "name the variable that holds the provider's address: "
                f"contextrender wrap --base-url-env OPENAI_BASE_URL -- {program} ..."
            )
        self.program = program
        self._names = names

    def redirect(self, given: Given, doors: Doors) -> Redirect:
        """By the variables, each with the provider that it names now; unset ones are told."""
        found = redirect_variables(given, doors, *[(name,) for name in self._names])
        unset = [name for name in self._names if not given.get(name)]
        notes = [f"{name} is not set: {_usual(name)} is taken." for name in unset]
        return Redirect(list(given.arguments), found, notes=notes)

    def passes(self, body: bytes) -> bool:
        """What it asks is not known."""
        return False


def redirect_variables(given: Given, doors: Doors, *groups: Sequence[str]) -> dict[str, str]:
    """New values of variables; those of a group name the same provider, the first set one wins."""
    found: dict[str, str] = {}
    for names in groups:
        found |= dict.fromkeys(names, _door(names[0], given.get(*names), doors))
    return found


def _door(name: str, base: str, doors: Doors) -> str:
    """The address to put in a variable: with `/v1` where clients of its kind expect it.

    Anthropic's clients add `/v1/messages` themselves, unless what they were given ends in `/v1`.
    """
    known = base or _usual(name)
    if "ANTHROPIC" in name.upper() and not base.rstrip("/").endswith("/v1"):
        return doors.open(with_version(known))
    return f"{doors.open(known)}/v1"


def _usual(name: str) -> str:
    """The provider that an unset variable's name speaks of. Raises CommandError for none."""
    for maker, address in (("ANTHROPIC", ANTHROPIC), ("OPENAI", OPENAI)):
        if maker in name.upper():
            return address
    raise CommandError(f"{name} is not set: set it to the provider's address, such as {OPENAI}.")
