"""The agents that the plugins are tested in, by the name of the program."""

from adapters.plugins.agents.base import Agent
from adapters.plugins.agents.claude import Claude
from adapters.plugins.agents.codex import Codex
from adapters.plugins.agents.opencode import OpenCode
from adapters.plugins.agents.pi import Pi

AGENTS: dict[str, type[Agent]] = {
    "claude": Claude,
    "codex": Codex,
    "opencode": OpenCode,
    "pi": Pi,
}
