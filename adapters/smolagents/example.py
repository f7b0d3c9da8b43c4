"""A smolagents agent that looks at one host after the other: python example.py [code].

It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
`OPENAI_BASE_URL` for one that is not OpenAI's). With `code` the agent writes its calls as code.
"""

import os
import sys

from contextrender_bridge.adapters.smolagents import with_contextrender
from smolagents import CodeAgent, LogLevel, OpenAIModel, ToolCallingAgent, tool


@tool
def look(host: str) -> str:
    """Tell how fast a host answers, and which comes after it.

    Args:
        host: host_0_X, host_1_X, ...
    """
    number = int(host.split("_")[1])
    finding = f"It answers in {number * 17 + 5} ms; the next is host_{number + 1}_X.\n"
    return finding + "All is well here and nothing else is to be told. " * 12


@tool
def restart(host: str) -> str:
    """Restart a host.

    Args:
        host: host_0_X, host_1_X, ...
    """
    return "Done."


def main() -> None:
    """Run two tasks in one session: the second one goes on with the first one's history."""
    # A code agent's history has all code twice: in the model's text and in the call.
    kind, budget = (CodeAgent, 1000) if sys.argv[1:] == ["code"] else (ToolCallingAgent, 600)
    agent = with_contextrender(
        kind, session="smolagents-hosts", budget=budget, policy="contextrender"
    )(
        tools=[look, restart],
        model=OpenAIModel(os.environ.get("MODEL", "gpt-4o-mini")),
        instructions="Look at one host at a time.",
        verbosity_level=LogLevel.ERROR,
    )
    print(agent.run("Find out which of the first six hosts are slow."))
    second_task = "And of the next three? Restart those that are slow."
    print(agent.run(second_task, reset=False))


if __name__ == "__main__":
    main()
