"""An agent with what the example does not use: ADK's model class, parallel calls, a callback."""

import asyncio

from contextrender_bridge.adapters.google_adk import ContextRenderPlugin
from example import look, restart
from google.adk.agents import LlmAgent
from google.adk.runners import InMemoryRunner
from google.genai.types import Blob, Content, Part

LAST_HOST = 24
"""The last host that a result of the test's scripted model names."""


async def main() -> None:
    """Ask about a picture, then print whether the session has every event."""
    plugin = ContextRenderPlugin(budget=2000, policy="contextrender", session="two by two")
    agent = LlmAgent(
        name="watch",
        model="gemini-2.5-flash",
        static_instruction="You watch hosts.",
        instruction="Two at a time.",
        tools=[look, restart],
        before_model_callback=plugin.before_model_callback,
    )
    runner = InMemoryRunner(agent=agent)
    session_key = {"user_id": "me", "session_id": "s"}
    await runner.session_service.create_session(app_name=runner.app_name, **session_key)
    for text in ("How fast are the hosts?", "And the others?"):
        picture = Part(inline_data=Blob(data=b"a picture", mime_type="image/png"))
        message = Content(role="user", parts=[Part(text=text), picture])
        async for event in runner.run_async(**session_key, new_message=message):
            if event.is_final_response():
                print(event.content.parts[0].text)
    session = await runner.session_service.get_session(app_name=runner.app_name, **session_key)
    events = str([event.content for event in session.events])
    print(all(f"the next is host_{number}_X" in events for number in range(1, LAST_HOST + 1)))


if __name__ == "__main__":
    asyncio.run(main())
