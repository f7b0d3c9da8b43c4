"""A mini-swe-agent that looks at one host's file after the other: python example.py.

It needs a running service (`contextrender serve`) and a model (`OPENAI_API_KEY`, and
`OPENAI_BASE_URL` for one that is not OpenAI's).
"""

import os
import tempfile
from pathlib import Path

import yaml
from contextrender_bridge.adapters.mini_swe_agent import ContextRenderAgent
from findings import write_findings
from minisweagent.config import get_config_path
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

TASK = (
    "The files host_0_X.txt, host_1_X.txt, ... tell how fast a host answers and which comes next. "
    "Read the first nine, one a step, and restart those that are slow: `echo restarted HOST`."
)


def main() -> None:
    """Run one task, with commands as text, as in `default.yaml`."""
    config = yaml.safe_load(get_config_path("default.yaml").read_text())
    name = os.environ.get("MODEL", "openai/gpt-4o-mini")
    with tempfile.TemporaryDirectory() as folder:
        write_findings(Path(folder))
        agent = ContextRenderAgent(
            LitellmTextbasedModel(model_name=name, **config["model"]),
            LocalEnvironment(cwd=folder, **config["environment"]),
            contextrender={
                "budget": 600,
                "policy": "contextrender",
                "session": "mini-swe-agent-hosts",
            },
            **config["agent"],
        )
        print(agent.run(TASK)["exit_status"], "after", len(agent.messages), "messages")


if __name__ == "__main__":
    main()
