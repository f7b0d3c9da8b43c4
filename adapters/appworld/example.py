"""A ReAct agent in AppWorld that reads one note after the other: python example.py.

It needs the apps (`appworld install`), a running service (`contextrender serve`) and a model
(`OPENAI_API_KEY`, and `OPENAI_BASE_URL` for one that is not OpenAI's), but not the benchmark's
data: the task, an account and its notes are made here, under `APPWORLD_ROOT`.

`ReActAgent` has the published interface of the experiments' agents, which are no part of the
package: `messages`, `num_instruction_messages`, `step_number`, `world`, `trimmed_messages`.
"""

import json
import os
import re
from pathlib import Path

import httpx
from appworld import AppWorld
from appworld.apps import get_all_apps
from appworld.collections.api_docs import ApiDocCollection
from appworld.collections.models import ModelCollection
from appworld.common.constants import DB_VERSION
from contextrender_bridge.adapters.appworld import ContextRenderMixin

EXPERIMENT, TASK = "hosts", "hosts_1"
INSTRUCTION = (
    "Note 1 is about host_0_X. Read the notes on nine hosts and restart those that are slow."
)
PERSON = {
    "first_name": "Ann",
    "last_name": "Lee",
    "email": "ann@example.com",
    "phone_number": "5550100100",
}
PASSWORD = "notes-of-ann"
MAX_STEPS = 40


class ReActAgent:
    """An agent that asks the model for code until the task is complete."""

    def __init__(self, world: AppWorld) -> None:
        """Create an agent with a system message, an example of a step, and the task."""
        self.world = world
        self.step_number = 0
        login = f'apis.simple_note.login(username="{PERSON["email"]}", password="{PASSWORD}")'
        self.messages = [
            {"role": "system", "content": "Solve the task with Python code, a block at a time."},
            {"role": "user", "content": "Which apps are there?"},
            {
                "role": "assistant",
                "content": "```python\nprint(apis.api_docs.show_app_descriptions())\n```\n\n",
            },
            {"role": "user", "content": "Output:\n```\n[...]```\n\n"},
            {"role": "assistant", "content": "There are eleven.\n\n"},
            {"role": "user", "content": f"Log in with {login}.\n\nTask: {world.task.instruction}"},
        ]
        self.num_instruction_messages = len(self.messages)

    @property
    def trimmed_messages(self) -> list[dict]:
        """The messages for the model: all of them, unless the mixin overrides this."""
        return self.messages

    def run(self) -> None:
        """Take steps until the task is complete."""
        while not self.world.task_completed() and self.step_number < MAX_STEPS:
            self.step_number += 1
            answer = ask(self.trimmed_messages)
            self.messages.append({"role": "assistant", "content": answer + "\n\n"})
            code = re.search(r"```python\n(.*?)```", answer, re.DOTALL)
            output = self.world.execute(code.group(1) if code else "")
            self.messages.append({"role": "user", "content": f"Output:\n```\n{output}```\n\n"})


class FittedAgent(ContextRenderMixin, ReActAgent):
    """A `ReActAgent` whose history is rendered within a budget for each model call."""

    contextrender = {"budget": 1000, "policy": "contextrender"}  # noqa: RUF012


def ask(messages: list[dict]) -> str:
    """Return the model's answer."""
    base = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    reply = httpx.post(
        f"{base}/chat/completions",
        json={"model": os.environ.get("MODEL", "gpt-4o-mini"), "messages": messages},
        headers={"authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
        timeout=300,
    )
    return reply.raise_for_status().json()["choices"][0]["message"]["content"]


def make_task(data: Path) -> None:
    """Write a task's specification, the documents of the apps, and their databases."""
    apps = get_all_apps(skip_admin=True)
    task = data / "tasks" / TASK
    (task / "dbs").mkdir(parents=True, exist_ok=True)
    specification = {
        "instruction": INSTRUCTION,
        "supervisor": PERSON,
        "datetime": "2023-05-18T12:00:00",
        "db_version": DB_VERSION,
    }
    (task / "specs.json").write_text(json.dumps(specification))
    documents = data / "api_docs" / "standard"
    documents.mkdir(parents=True, exist_ok=True)
    for app, calls in ApiDocCollection.build(tuple(apps)).items():
        # AppWorld expects the benchmark's canary string in each published document.
        documents_json = {name: {**call, "canary_string": ""} for name, call in calls.items()}
        (documents / f"{app}.json").write_text(json.dumps(documents_json))
    models = ModelCollection.load(":memory:test", ":memory:test", [*apps, "admin"], create_db=True)
    fill(models)
    models.save(str(task / "dbs"), app_names=[*apps, "admin"], delete_if_exists=True)
    models.close()


def fill(models: ModelCollection) -> None:
    """Put the task, an account and a note for each host into the databases."""
    supervisor = models.supervisor.Supervisor(**PERSON, birthday="1990-01-01")
    supervisor.save()
    models.supervisor.Task(supervisor_id=supervisor.id, instruction=INSTRUCTION).save()
    person = {name: PERSON[name] for name in ("first_name", "last_name", "email")}
    user = models.simple_note.User(**person, password=PASSWORD, verified=True)
    user.save()
    for number in range(9):
        finding = f"It answers in {number * 17 + 5} ms; the next is host_{number + 1}_X.\n"
        finding += "All is well here and nothing else is to be told. " * 12
        models.simple_note.Note(user_id=user.id, title=f"host_{number}_X", content=finding).save()


def main() -> None:
    """Create the task and solve it."""
    make_task(Path(os.environ.setdefault("APPWORLD_ROOT", str(Path.cwd()))) / "data")
    with AppWorld(TASK, experiment_name=EXPERIMENT, load_ground_truth=False) as world:
        agent = FittedAgent(world)
        agent.run()
        print(f"{agent.step_number} steps, complete: {world.task_completed()}")


if __name__ == "__main__":
    main()
