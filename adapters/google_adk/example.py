"""An ADK agent that looks at one host after the other: python example.py.

It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
`OPENAI_BASE_URL` for one that is not OpenAI's; or another of ADK's models).
"""

import asyncio
import os

from contextrender_bridge.adapters.google_adk import ContextRenderPlugin
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps import App
from google.adk.integrations.openai import OpenAILlm
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai.types import Content, Part


def look(host: str) -> str:
    """Tell how fast a host (host_0_X, host_1_X, ...) answers, and which comes after it."""
    number = int(host.split("_")[1])
    finding = f"It answers in {number * 17 + 5} ms; the next is host_{number + 1}_X.\n"
    return finding + "All is well here and nothing else is to be told. " * 12


def restart(host: str) -> str:
    """Restart a host."""
    return "Done."


async def main() -> None:
    """Ask twice in one session, streaming the second time."""
    agent = LlmAgent(
        name="watch",
        model=OpenAILlm(model=os.environ.get("MODEL", "gpt-4o-mini")),
        instruction="Use the tools, one host at a time.",
        tools=[look, restart],
    )
    app = App(
        name="hosts",
        root_agent=agent,
        plugins=[ContextRenderPlugin(budget=600, policy="contextrender")],
    )
    sessions = InMemorySessionService()
    runner = Runner(app=app, session_service=sessions)
    await sessions.create_session(app_name="hosts", user_id="me", session_id="adk-hosts")
    await ask(runner, "Find out which of the first six hosts are slow.", StreamingMode.NONE)
    second = "And of the next three? Restart those that are slow."
    await ask(runner, second, StreamingMode.SSE)
    await runner.close()


async def ask(runner: Runner, text: str, mode: StreamingMode) -> None:
    """Print the answer."""
    message = Content(role="user", parts=[Part(text=text)])
    config = RunConfig(streaming_mode=mode)
    async for event in runner.run_async(
        user_id="me", session_id="adk-hosts", new_message=message, run_config=config
    ):
        if event.is_final_response():
            print("".join(part.text or "" for part in event.content.parts))


if __name__ == "__main__":
    asyncio.run(main())
