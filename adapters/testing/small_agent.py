"""A mini-swe-agent that may only read one of ten files per step: small_agent.py URL STEPS FOLDER.

Its model is too small to write commands that work, so a grammar permits only such commands.
"""

import sys

from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

GRAMMAR = (
    'root ::= "I read one more. " [a-z ]{4,24} '
    '"\\n\\n```mswea_bash_command\\ncat host_" [0-9] "_X.txt\\n```"'
)
OBSERVATION = "<returncode>{{output.returncode}}</returncode>\n<output>\n{{output.output}}</output>"


def main() -> None:
    """Run the agent until its step limit."""
    url, steps, folder = sys.argv[1:]
    arguments = {"api_base": url, "api_key": "none", "extra_body": {"grammar": GRAMMAR}}
    model = LitellmTextbasedModel(
        model_name="openai/smollm2",
        model_kwargs=arguments,
        cost_tracking="ignore_errors",
        observation_template=OBSERVATION,
    )
    agent = DefaultAgent(
        model,
        LocalEnvironment(cwd=folder),
        system_template="You read files, one a step.",
        instance_template="{{task}}",
        step_limit=int(steps),
    )
    outcome = agent.run("Read host_0_X.txt to host_9_X.txt and say which hosts are slow.")
    print(outcome["exit_status"], "after", agent.n_calls, "calls")


if __name__ == "__main__":
    main()
