"""An OpenAI Agents SDK agent that looks at one host after the other: python example.py.

It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
`OPENAI_BASE_URL` for one that is not OpenAI's; `OPENAI_API=chat_completions` for chat completions).
"""

import asyncio
import os

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool, set_default_openai_api
from contextrender_bridge.adapters.openai_agents import ContextRenderFilter


@function_tool
def look(host: str) -> str:
    """Tell how fast a host (host_0_X, host_1_X, ...) answers, and which comes after it."""
    number = int(host.split("_")[1])
    finding = f"It answers in {number * 17 + 5} ms; the next is host_{number + 1}_X.\n"
    return finding + "All is well here and nothing else is to be told. " * 12


@function_tool
def restart(host: str) -> str:
    """Restart a host."""
    return "Done."


async def main() -> None:
    """Ask twice in one session, the second time streaming."""
    set_default_openai_api(os.environ.get("OPENAI_API", "responses"))  # type: ignore[arg-type]
    agent = Agent(
        name="Hosts",
        instructions="Use the tools, one host at a time.",
        tools=[look, restart],
        model=os.environ.get("MODEL", "gpt-4o-mini"),
    )
    session = SQLiteSession("openai-agents-hosts")
    fit = ContextRenderFilter(budget=600, policy="contextrender")
    config = RunConfig(call_model_input_filter=fit.for_session(session))
    first = "Find out which of the first six hosts are slow."
    print((await Runner.run(agent, first, session=session, run_config=config)).final_output)
    second = "And of the next three? Restart those that are slow."
    result = Runner.run_streamed(agent, second, session=session, run_config=config, max_turns=20)
    async for _ in result.stream_events():
        pass
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
