"""A Pydantic AI agent that looks at one host after the other: python example.py.

It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
`OPENAI_BASE_URL` for one that is not OpenAI's; `MODEL=openai-chat:NAME` for chat completions).
"""

import asyncio
import os

from contextrender_bridge.adapters.pydantic_ai import ContextRenderCapability
from pydantic_ai import Agent

agent = Agent(
    os.environ.get("MODEL", "openai-responses:gpt-4o-mini"),
    instructions="Use the tools, one host at a time.",
    capabilities=[ContextRenderCapability(budget=600, policy="contextrender")],
)


@agent.tool_plain
def look(host: str) -> str:
    """Tell how fast a host (host_0_X, host_1_X, ...) answers, and which comes after it."""
    number = int(host.split("_")[1])
    finding = f"It answers in {number * 17 + 5} ms; the next is host_{number + 1}_X.\n"
    return finding + "All is well here and nothing else is to be told. " * 12


@agent.tool_plain
def restart(host: str) -> str:
    """Restart a host."""
    return "Done."


async def main() -> None:
    """Ask twice in one conversation, the second time streaming."""
    first = "Find out which of the first six hosts are slow."
    first_run = await agent.run(first, conversation_id="pydantic-ai-hosts")
    print(first_run.output)
    second = "And of the next three? Restart those that are slow."
    async with agent.run_stream(second, message_history=first_run.all_messages()) as result:
        print(await result.get_output())


if __name__ == "__main__":
    asyncio.run(main())
