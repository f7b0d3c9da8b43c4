"""ACON's agent on questions with eight objectives (github.com/microsoft/acon).

`--root` is a checkout with `experiments/smolagents` and its data `data/nq_multi_8`; the Python must
have `productive_agents`. ACON's own compression is off. The score is the mean F1 of the answers.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

EXPERIMENT = Path("experiments/smolagents")
DATA = EXPERIMENT / "data" / "nq_multi_8"


def missing(root: str, split: str) -> str:
    if not root or not (Path(root) / EXPERIMENT).is_dir():
        return (
            "ACON's agent is missing: check out github.com/microsoft/acon and name the folder with "
            "--root."
        )
    if importlib.util.find_spec("productive_agents") is None:
        return (
            f"ACON's package productive_agents is missing in {sys.executable}: install it from "
            "the checkout and name that Python with --python."
        )
    if not (Path(root) / DATA / f"{split}.jsonl").exists():
        return f"ACON's questions are missing: {DATA / f'{split}.jsonl'} is not in the checkout."
    return ""


def examples(root: str, split: str) -> dict[str, Any]:
    sys.path.insert(0, str(Path(root) / EXPERIMENT))
    from dataset import QALoader

    loader = QALoader(str(Path(root) / DATA / f"{split}.jsonl"))
    return {str(example.id): example for example in loader.iter(limit=None)}


def run(example: Any, model: str, steps: int) -> float:
    from eval_utils import f1_max
    from productive_agents.agents.smolagents.agent import create_smolagents_agent
    from productive_agents.env.smolagents.config import SmolagentsEnvConfig
    from productive_agents.env.smolagents.env import SmolagentsEnv

    with tempfile.TemporaryDirectory() as folder:
        env = SmolagentsEnv(
            config=SmolagentsEnvConfig(
                experiment_name="contextrender",
                max_interactions=steps,
                debug_mode=False,
                local_workdir=folder,
            )
        )
        env.reset(seed=0, task=example.question)
        agent = create_smolagents_agent(
            model_name=model,
            key=os.environ["OPENAI_API_KEY"],
            env=env,
            task_config={"task_id": example.id, "question": example.question},
            exp_config=SimpleNamespace(debug_mode=False, max_iter=steps, co_config=None),
            lora_name=None,
            model_ctxopt=None,
            debug_mode=False,
        )
        info = agent.run(env, max_iter=steps).get("info") or {}
    answer = str(info.get("final_answer_raw") or info.get("final_answer") or "")
    given = [part.strip() for part in answer.split(";")]
    right = example.answer
    return float(sum(f1_max(a, b) for a, b in zip(given, right, strict=False)) / len(right))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["missing", "tasks", "run"])
    for name in ("--split", "--root", "--task", "--url", "--model"):
        parser.add_argument(name, default="")
    parser.add_argument("--steps", type=int, default=50)
    args = parser.parse_args()
    if args.what == "missing":
        print(json.dumps({"missing": missing(args.root, args.split)}))
    elif args.what == "tasks":
        print(json.dumps({"tasks": list(examples(args.root, args.split))}))
    else:
        example = examples(args.root, args.split)[args.task]
        print(json.dumps({"score": run(example, args.model, args.steps)}))


if __name__ == "__main__":
    main()
