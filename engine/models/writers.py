"""The modules in which a model writes texts (Jac: importing takes seconds), and compactions."""

import importlib
from dataclasses import dataclass, replace
from typing import Any, Final

from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.usage import NOTHING_USED, Usage

from engine.models.answers import Answer, answer_of

WRITERS: Final = ("compaction", "summary_writer")


def writer(name: str) -> Any:
    """One of them. Raises ImportError where byLLM is not installed."""
    importlib.import_module("jaclang")
    return importlib.import_module(f".{name}", __package__)


def load_writers() -> None:
    """All of them, before a request needs one."""
    for name in WRITERS:
        writer(name)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a model made of a result: a text, or why there is none, and the tokens it took."""

    used: Usage
    text: str = ""
    failure: str = ""


def compacted(model: str, content: str, question: str, limit: int) -> Compacted:
    """`content` for `question`, at most `limit` tokens as `model` counts them."""
    key = ("compaction", model, content, question, limit)
    return answer_of(key, lambda: _asked(model, content, question, limit), free=_free)


def _free(answer: Answer) -> Answer:
    if answer.failure is not None:
        return answer
    return Answer(replace(answer.value, used=NOTHING_USED))


def _asked(model: str, content: str, question: str, limit: int) -> Compacted:
    compact_result = writer("compaction").compact_result
    spent = [NOTHING_USED]
    try:
        text = compact_result(model, content, question, limit, spend=spent.append)
    except ContextRenderError as failure:
        return Compacted(spent[-1], failure=failure.message)
    return Compacted(spent[-1], text)
