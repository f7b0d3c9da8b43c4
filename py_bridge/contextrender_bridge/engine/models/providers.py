"""Models: LiteLLM, what providers answer, and the modules in which a model writes texts.

LiteLLM is imported late, offline and quiet, as that takes over a second. Import this module before
anything that imports LiteLLM itself: it turns the price map's fetch off.

A request has a session and a thread to itself, and a provider may take a minute. So a request that
needs an answer ends by raising `PendingProviderCall`; who started it gets the answer elsewhere and
starts it again, and then the answer is there. Where nobody has set out `ProviderAnswers`, providers
are asked on the spot.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.base.settings import set_for_library
from contextrender_bridge.base.usage import NOTHING_USED, Usage

set_for_library("LITELLM_LOCAL_MODEL_COST_MAP", "True")

_import_lock = threading.Lock()


def litellm() -> Any:
    """The litellm module, with its bundled price map (no fetch) and without its log output.

    Raises ImportError when LiteLLM is not installed.
    """
    with _import_lock:
        return _load()


@cache
def _load() -> Any:
    module: Any = importlib.import_module("litellm")
    # Retries are the caller's: LiteLLM's embedding reads max_retries=0 as this default (its #7003).
    module.DEFAULT_MAX_RETRIES = 0
    module.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return module


def check_model(setting: str, model: str) -> None:
    """Imports LiteLLM now rather than in a request. Raises CommandError for a model of nobody's."""
    try:
        litellm().get_llm_provider(model)
    except ImportError:
        raise CommandError(f"{setting} {model!r} needs {how_to_install('models')}.") from None
    except Exception:  # litellm's own, of a class that its versions differ in
        raise CommandError(f"{setting} {model!r} is no model that LiteLLM knows.") from None


def input_limit(model: str, default: int) -> int:
    """Tokens `model` accepts as input, from LiteLLM's bundled map, else `default`."""
    module = litellm()
    try:
        info = module.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for a model it does not list
        return default
    return int(info.get("max_input_tokens") or info.get("max_tokens") or default)


def usage_of(response: Any) -> Usage:
    """The tokens a chat completion reports; none where it reports nothing."""
    usage = response.get("usage") or {}
    return Usage(
        fresh=int(usage.get("prompt_tokens") or 0),
        output=int(usage.get("completion_tokens") or 0),
    )


@dataclass(frozen=True)
class Answer:
    """What a provider was found to say, or why it said nothing."""

    value: Any = None
    failure: Exception | None = None
    takers: list[object] = field(default_factory=list, compare=False, repr=False)

    def is_paid_by(self, request: object) -> bool:
        """Whether this request is the first of those that take it: its tokens are told to that one
        alone, however often it asks."""
        self.takers.append(request)
        return self.takers[0] is request

    def get(self) -> Any:
        """The value. Raises the failure."""
        if self.failure is not None:
            raise self.failure
        return self.value


class PendingProviderCall(BaseException):
    """A request cannot go on without the answer to `ask`, which equal `key`s share.

    No Exception: nothing on the way may take it for a failure.
    """

    def __init__(self, key: Hashable, ask: Callable[[], Any]) -> None:
        """`ask` gives the answer, or raises what asking the provider raises."""
        super().__init__("an answer is waited for")
        self.key = key
        self._ask = ask

    def answer(self) -> Answer:
        """Waits for it."""
        try:
            return Answer(self._ask())
        except Exception as failure:
            return Answer(failure=failure)


@dataclass(eq=False)
class ProviderAnswers:
    """Those that came for one request; `used`: since that was last set, one was made use of."""

    used: bool = False
    _come: dict[Hashable, Answer] = field(default_factory=dict, init=False)

    def put(self, waiting: PendingProviderCall, answer: Answer) -> None:
        """What is waited for has come."""
        self._come[waiting.key] = answer

    def take(self, key: Hashable) -> Answer | None:
        """The answer of that key, if it has come."""
        answer = self._come.get(key)
        self.used = self.used or answer is not None
        return answer


ANSWERS: ContextVar[ProviderAnswers | None] = ContextVar("answers", default=None)


def answer_of[T](
    key: Hashable,
    ask: Callable[[], T],
    *,
    quick: bool = False,
    free: Callable[[Answer], Answer] = lambda answer: answer,
) -> T:
    """What `ask` gives or raises. Raises PendingProviderCall where somebody else is to wait for it.

    `quick`: it will not take long this time. `free` is what an answer is to a request that another
    one pays for.
    """
    answers = ANSWERS.get()
    if answers is None:
        return ask()
    if (come := answers.take(key)) is not None:
        found: T = (come if come.is_paid_by(answers) else free(come)).get()
        return found
    if quick:
        return ask()
    raise PendingProviderCall(key, ask)


WRITERS: Final = ("result_summary", "summary_writer")


def writer(name: str) -> Any:
    """One of them. Raises ImportError where byLLM is not installed."""
    importlib.import_module("jaclang")
    return importlib.import_module(f".{name}", __package__)


def load_writers() -> None:
    """All of them, before a request needs one."""
    for name in WRITERS:
        writer(name)


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """What a model made of a result: a text, or why there is none, and the tokens it took."""

    used: Usage
    text: str = ""
    failure: str = ""


def compacted(model: str, content: str, question: str, limit: int) -> ResultSummary:
    """`content` for `question`, at most `limit` tokens as `model` counts them."""
    key = ("compaction", model, content, question, limit)
    return answer_of(key, lambda: _asked(model, content, question, limit), free=_free)


def _free(answer: Answer) -> Answer:
    if answer.failure is not None:
        return answer
    return Answer(replace(answer.value, used=NOTHING_USED))


def _asked(model: str, content: str, question: str, limit: int) -> ResultSummary:
    compact_result = writer("result_summary").compact_result
    spent = [NOTHING_USED]
    try:
        text = compact_result(model, content, question, limit, spend=spent.append)
    except ContextRenderError as failure:
        return ResultSummary(spent[-1], failure=failure.message)
    return ResultSummary(spent[-1], text)
