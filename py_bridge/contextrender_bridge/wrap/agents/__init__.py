"""The agents that wrap supports, by their names on the command line."""

from contextrender_bridge.wrap.agents.base import Agent
from contextrender_bridge.wrap.agents.claude import Claude
from contextrender_bridge.wrap.agents.codex import Codex
from contextrender_bridge.wrap.agents.command import Mini
from contextrender_bridge.wrap.agents.hermes import Hermes
from contextrender_bridge.wrap.agents.openclaw import OpenClaw
from contextrender_bridge.wrap.agents.opencode import OpenCode

AGENTS: dict[str, Agent] = {
    agent.program: agent for agent in (Claude(), Codex(), OpenCode(), OpenClaw(), Hermes(), Mini())
}
