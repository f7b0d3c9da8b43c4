"""The agents that a plugin can be installed in, by the name of the program."""

from contextrender_bridge.plugins.hosts.base import Host
from contextrender_bridge.plugins.hosts.claude import ClaudeCode
from contextrender_bridge.plugins.hosts.codex import CodexCli
from contextrender_bridge.plugins.hosts.opencode import OpenCode
from contextrender_bridge.plugins.hosts.pi import Pi

HOSTS: dict[str, Host] = {
    host.program: host for host in (ClaudeCode(), Pi(), OpenCode(), CodexCli())
}
