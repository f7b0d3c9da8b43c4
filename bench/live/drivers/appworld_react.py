"""AppWorld's simplified ReAct agent (appworld 0.2: `appworld` and `appworld-agents`).

`--root` is the folder that holds AppWorld's `data`. The score is whether all of a task's tests
pass: its mean over tasks is task goal completion, TGC.
"""

import argparse
import importlib.util
import json
import os
import sys
import uuid
from pathlib import Path


def missing(root: str, split: str) -> str:
    lacking = [name for name in ("appworld", "appworld_agents") if not _installed(name)]
    if lacking:
        return (
            f"AppWorld's ReAct agent is missing in {sys.executable}: install "
            f"{' and '.join(lacking)} from a checkout of appworld 0.2 and name that Python with "
            "--python."
        )
    if not (Path(root or ".") / "data" / "datasets" / f"{split}.txt").exists():
        return (
            f"AppWorld's data is missing: run `appworld download data` and name with --root the "
            f"folder that then holds data/datasets/{split}.txt."
        )
    return ""


def tasks(split: str) -> list[str]:
    from appworld import load_task_ids

    found: list[str] = load_task_ids(split)
    return found


def run(task: str, url: str, model: str, steps: int) -> float:
    import appworld_agents
    from appworld import AppWorld
    from appworld_agents.code.simplified.react_code_agent import SimplifiedReActCodeAgent

    prompts = Path(appworld_agents.__file__).parent / "prompts"
    agent = SimplifiedReActCodeAgent(
        model_config={
            "client_name": "openai",
            "api_type": "chat_completions",
            "base_url": url,
            "name": model,
            "api_key_env_name": "OPENAI_API_KEY",
            "temperature": 0.0,
            "seed": 100,
            "use_cache": False,
            "max_retries": 3,
            "retry_after_n_seconds": 5,
            "cost_per_token": dict.fromkeys(
                ("input_cache_hit", "input_cache_miss", "input_cache_write", "output"), 0.0
            ),
        },
        appworld_config={"random_seed": 100},
        logger_config={"color": False, "verbose": False},
        prompt_file_path=str(prompts / "react_code_agent" / "instructions.txt"),
        ignore_multiple_calls=True,
        max_prompt_length=None,
        max_output_length=None,
        max_steps=steps,
    )
    name = f"contextrender_{uuid.uuid4().hex[:8]}"
    agent.logger.initialize(name, 1, 1, 0)
    with AppWorld.initializer(update_defaults=True, experiment_name=name, random_seed=100):
        agent.solve_task(task)
        return float(bool(agent.world.evaluate().to_dict()["success"]))


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["missing", "tasks", "run"])
    for name in ("--split", "--root", "--task", "--url", "--model"):
        parser.add_argument(name, default="")
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    if args.root:
        os.environ["APPWORLD_ROOT"] = args.root
    if args.what == "missing":
        print(json.dumps({"missing": missing(args.root, args.split)}))
    elif args.what == "tasks":
        print(json.dumps({"tasks": tasks(args.split)}))
    else:
        print(json.dumps({"score": run(args.task, args.url, args.model, args.steps)}))


if __name__ == "__main__":
    main()
