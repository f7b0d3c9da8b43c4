"""Agents whose provider's address is set by a variable: mini-swe-agent, and other commands."""

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
"""A key of mini-swe-agent's configuration; it overrides LiteLLM's variables."""


class Command(Agent):
    """A command that takes its provider's address from the variables `names`."""

    def __init__(self, program: str, names: Sequence[str]) -> None:
        """Create the agent. `names` are the variables with the provider's address.

        Raise CommandError if there are none.
        """
        if not names:
            raise CommandError(
                "name the variable that holds the provider's address: "
                f"contextrender wrap --base-url-env OPENAI_BASE_URL -- {program} ..."
            )
        self.program = program
        self._names = names

    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run with a route in each of the variables.

        Add a note on each variable that was not set, because a default address is used for it.
        """
        variables = _variables(request, routes, *[(name,) for name in self._names])
        unset = [name for name in self._names if not request.get(name)]
        notes = [f"{name} is not set; wrap uses {_default_address(name)}." for name in unset]
        return Redirect(list(request.arguments), variables, notes=notes)


class Mini(Agent):
    """mini-swe-agent, redirected by variables, and by a file if its options name an address."""

    program = "mini"
    install = "uv tool install mini-swe-agent"

    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run with routes in LiteLLM's variables.

        If an option of the run names a provider's address, it overrides these variables. So also
        add a configuration file (`-c`) with a route to this address.
        """
        result = Redirect(
            list(request.arguments), _variables(request, routes, LITELLM_OPENAI, LITELLM_ANTHROPIC)
        )
        addresses = [word for word in request.arguments if word.startswith(f"{API_BASE}=")]
        if addresses:
            route = f"{routes.route_to(addresses[-1].partition('=')[2])}/v1"
            # The address has the secret, so it is in a file: other users can read arguments.
            file = request.folder / "mini.yaml"
            result.files[file] = json.dumps({"model": {"model_kwargs": {"api_base": route}}})
            result.arguments += ["-c", str(file)]
        return result


def _variables(
    request: RunRequest, routes: ProviderRoutes, *groups: Sequence[str]
) -> dict[str, str]:
    """Return routes as the values of variables, by the variables' names.

    All variables of a group name the address of the same provider. The first variable of the group
    that is set has the address, otherwise it is the provider's default. All get the route to it.
    """
    variables: dict[str, str] = {}
    for names in groups:
        base = request.get(*names) or _default_address(names[0])
        is_messages_api = "ANTHROPIC" in names[0].upper()
        route = routes.route_with_version(base, messages=is_messages_api)
        variables |= dict.fromkeys(names, route)
    return variables


def _default_address(name: str) -> str:
    """Return the default address of the provider that a variable's name mentions.

    Raise CommandError if it mentions none.
    """
    for maker, address in (("ANTHROPIC", ANTHROPIC), ("OPENAI", OPENAI)):
        if maker in name.upper():
            return address
    raise CommandError(f"{name} is not set. Set it to the provider's address, such as {OPENAI}.")
