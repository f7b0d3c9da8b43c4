"""The agents for which there is a plugin, by the name of their program."""

from contextrender_bridge.plugins.hosts.base import Host
from contextrender_bridge.plugins.hosts.claude import ClaudeHost
from contextrender_bridge.plugins.hosts.codex import CodexHost
from contextrender_bridge.plugins.hosts.opencode import OpenCodeHost
from contextrender_bridge.plugins.hosts.pi import PiHost

HOSTS: dict[str, Host] = {
    host.program: host for host in (ClaudeHost(), PiHost(), OpenCodeHost(), CodexHost())
}
