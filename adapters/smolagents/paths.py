"""An agent with plans, images, parallel calls, errors and streams, but without an answer."""

from contextrender_bridge.adapters.smolagents import (
    CALLS,
    _call,
    _with_arguments,
    with_contextrender,
)
from example import look, restart
from PIL import Image
from smolagents import LogLevel, MultiStepAgent, OpenAIModel, ToolCallingAgent

LAST_HOST = 14
"""The last host that a result of the test's scripted model names."""


def main() -> None:
    """Run until the step limit, then print whether the agent's memory has every step."""
    agent = with_contextrender(ToolCallingAgent, budget=2000, policy="contextrender")(
        tools=[look, restart],
        model=OpenAIModel("m"),
        planning_interval=3,
        max_steps=8,
        stream_outputs=True,
        verbosity_level=LogLevel.OFF,
    )
    answer = agent.run("How fast are the hosts?", images=[Image.new("RGB", (8, 8))])
    print(f"\n{answer}")
    text = str(MultiStepAgent.write_memory_to_messages(agent))
    print(all(f"the next is host_{number}_X" in text for number in range(1, LAST_HOST + 1)))
    print(type(agent).__name__, type(agent).__mro__[2] is ToolCallingAgent)
    for arguments, cut in (("a = 1", "a"), ({"a": 1}, '{"a": 2}')):
        listing = f"{CALLS}{[{'id': 'x', 'function': {'name': 'look', 'arguments': arguments}}]}"
        assert _call(0, 0, _with_arguments(listing, cut))["function"]["arguments"] == cut


if __name__ == "__main__":
    main()
