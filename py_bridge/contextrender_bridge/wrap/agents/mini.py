"""mini-swe-agent: LiteLLM's variables, and `model_kwargs.api_base`, which beats them."""

from __future__ import annotations

from contextrender_bridge.wrap.agents.base import Given, Redirect
from contextrender_bridge.wrap.agents.command import redirect_variables
from contextrender_bridge.wrap.doors import Doors

OPENAI = ("OPENAI_BASE_URL", "OPENAI_API_BASE")
ANTHROPIC = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_BASE")
BASE = "model.model_kwargs.api_base"


class Mini:
    """mini-swe-agent."""

    name = "mini"
    program = "mini"
    install = "uv tool install mini-swe-agent"

    def redirect(self, given: Given, doors: Doors) -> Redirect:
        """By LiteLLM's variables; an address given by `-c` is given again, as the door's."""
        made = Redirect(list(given.arguments), redirect_variables(given, doors, OPENAI, ANTHROPIC))
        told = [word for word in given.arguments if word.startswith(f"{BASE}=")]
        if told:
            door = f"{doors.open(told[-1].partition('=')[2])}/v1"
            made.arguments += ["-c", f"{BASE}={door}"]
        return made

    def passes(self, body: bytes) -> bool:
        """Every call is the agent's own."""
        return False
