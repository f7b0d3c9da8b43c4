"""A LangChain agent that looks at one host after the other: python example.py.

It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
`OPENAI_BASE_URL` for one that is not OpenAI's).
"""

import asyncio
import os

from contextrender_bridge.adapters.langchain import ContextRenderMiddleware
from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


@tool
def look(host: str) -> str:
    """Tell how fast a host (host_0_X, host_1_X, ...) answers, and which comes after it."""
    number = int(host.split("_")[1])
    finding = f"It answers in {number * 17 + 5} ms; the next is host_{number + 1}_X.\n"
    return finding + "All is well here and nothing else is to be told. " * 12


@tool
def restart(host: str) -> str:
    """Restart a host."""
    return "Done."


def main() -> None:
    """Ask twice in one thread."""
    agent = create_agent(
        ChatOpenAI(model=os.environ.get("MODEL", "gpt-4o-mini")),
        [look, restart],
        system_prompt="Use the tools, one host at a time.",
        middleware=[ContextRenderMiddleware(budget=600, policy="contextrender")],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "langchain-hosts"}, "recursion_limit": 99}
    first = {"role": "user", "content": "Find out which of the first six hosts are slow."}
    print(agent.invoke({"messages": [first]}, config)["messages"][-1].text)
    second = {"role": "user", "content": "And of the next three? Restart those that are slow."}
    print(asyncio.run(agent.ainvoke({"messages": [second]}, config))["messages"][-1].text)


if __name__ == "__main__":
    main()
