"""Calls of model providers: LiteLLM, providers' answers, and summaries of results.

LiteLLM's import takes over a second, so it is done late. Import this module before any module that
imports LiteLLM itself, because it turns off the download of LiteLLM's price map.

A request occupies a session and a thread, and a provider may take a minute. So a request that needs
a provider's answer raises `PendingProviderCall`. The runner of the request waits for the answer in
another thread, adds it to `ProviderAnswers`, and runs the request again, which then finds the
answer. If the context variable `ANSWERS` is not set, providers are called directly.
"""

import importlib
import logging
import threading
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.base.installing import how_to_install
from contextrender_bridge.base.settings import set_for_library
from contextrender_bridge.base.usage import NOTHING_USED, Usage

set_for_library("LITELLM_LOCAL_MODEL_COST_MAP", "True")

_import_lock = threading.Lock()


def litellm() -> Any:
    """Import and return the litellm module, configured by `_load`.

    Raise ImportError if LiteLLM is not installed.
    """
    with _import_lock:
        return _load()


@cache
def _load() -> Any:
    """Import litellm once. Switch off its retries and its log output."""
    module: Any = importlib.import_module("litellm")
    # Our callers retry. LiteLLM's embedding replaces max_retries=0 by this default (its #7003).
    module.DEFAULT_MAX_RETRIES = 0
    module.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    return module


def check_model(setting: str, model: str) -> None:
    """Raise CommandError if LiteLLM does not know the model, or is not installed.

    This also imports LiteLLM, so that no request has to wait for the import.
    """
    try:
        litellm().get_llm_provider(model)
    except ImportError:
        raise CommandError(f"{setting} {model!r} needs {how_to_install('models')}.") from None
    except Exception:  # versions of LiteLLM raise different classes
        raise CommandError(f"{setting} {model!r} is no model that LiteLLM knows.") from None


def input_limit(model: str, default: int) -> int:
    """Return the tokens that `model` accepts as input, or `default` if LiteLLM does not list it."""
    module = litellm()
    try:
        info = module.get_model_info(model)
    except Exception:  # litellm raises a bare Exception for a model it does not list
        return default
    return int(info.get("max_input_tokens") or info.get("max_tokens") or default)


def usage_of(response: Any) -> Usage:
    """Return the tokens that a chat completion reports, 0 if it reports none."""
    usage = response.get("usage") or {}
    return Usage(
        uncached=int(usage.get("prompt_tokens") or 0),
        output=int(usage.get("completion_tokens") or 0),
    )


@dataclass(frozen=True)
class Answer:
    """A provider's answer: its value, or the failure. `takers` are the requests that took it."""

    value: Any = None
    failure: Exception | None = None
    takers: list[object] = field(default_factory=list, compare=False, repr=False)

    def add_taker(self, request: object) -> bool:
        """Record that a request takes the answer. Return whether it must count the tokens.

        The first taker must. A request that runs several times may take the answer each time.
        """
        self.takers.append(request)
        return self.takers[0] is request

    def get(self) -> Any:
        """Return the value, or raise the failure."""
        if self.failure is not None:
            raise self.failure
        return self.value


class PendingProviderCall(BaseException):
    """A signal that a request must wait for a provider's answer.

    Requests with the same `key` share the answer. The signal is no subclass of Exception, so that
    no handler of failures catches it.
    """

    def __init__(self, key: Hashable, ask: Callable[[], Any]) -> None:
        """Set up a call. `ask` returns the answer, or raises the provider's error."""
        super().__init__("a request must wait for a provider's answer")
        self.key = key
        self._ask = ask

    def answer(self) -> Answer:
        """Call the provider, and return its answer."""
        try:
            return Answer(self._ask())
        except Exception as failure:
            return Answer(failure=failure)


@dataclass(eq=False)
class ProviderAnswers:
    """Providers' answers for one request.

    `has_taken` is true if the request has taken an answer since its runner last set it to false.
    """

    has_taken: bool = False
    _by_key: dict[Hashable, Answer] = field(default_factory=dict, init=False)

    def put(self, call: PendingProviderCall, answer: Answer) -> None:
        """Add the answer of a call."""
        self._by_key[call.key] = answer

    def take(self, key: Hashable) -> Answer | None:
        """Return the answer of that key, or None if there is none yet."""
        answer = self._by_key.get(key)
        self.has_taken = self.has_taken or answer is not None
        return answer


ANSWERS: ContextVar[ProviderAnswers | None] = ContextVar("answers", default=None)


def answer_of[T](
    key: Hashable,
    ask: Callable[[], T],
    *,
    is_quick: bool = False,
    without_usage: Callable[[Answer], Answer] = lambda answer: answer,
) -> T:
    """Return a provider's answer, or raise the provider's failure.

    `ask` calls the provider. If the request's `ANSWERS` do not have the answer yet, raise
    PendingProviderCall, so that no thread waits for the provider here. With `is_quick`, call `ask`
    instead, because it does not wait. Several requests may share one answer. Only the first of them
    counts its tokens; the others get what `without_usage` returns.
    """
    answers = ANSWERS.get()
    if answers is None:  # not in a request of a server
        return ask()
    # The request runs again after the provider answered, and finds the answer here.
    if (answer := answers.take(key)) is not None:
        must_count_tokens = answer.add_taker(answers)
        if not must_count_tokens:
            answer = without_usage(answer)
        value: T = answer.get()
        return value
    if is_quick:
        return ask()
    raise PendingProviderCall(key, ask)


def result_writer() -> Any:
    """Import and return the module that summarises results. The import takes seconds.

    Raise ImportError if byLLM is not installed.
    """
    importlib.import_module("jaclang")
    return importlib.import_module(".result_summary", __package__)


@dataclass(frozen=True, slots=True)
class SummaryReply:
    """A model's summary of a result, or the reason for its failure, and the model calls' usage."""

    usage: Usage
    text: str = ""
    failure: str = ""


def summarise_result(model: str, content: str, question: str, limit: int) -> SummaryReply:
    """Return a summary of a result's `content` that helps to answer `question`.

    The summary has at most `limit` tokens, as `model` counts them. If the model fails, the reply
    has the reason instead of a text. Requests that wait for the same summary share one reply, and
    only the first of them gets its usage.
    """
    key = ("compaction", model, content, question, limit)  # equal for the same summary
    return answer_of(
        key, lambda: _summarise(model, content, question, limit), without_usage=_without_usage
    )


def _without_usage(answer: Answer) -> Answer:
    """Return the answer without its usage, for a request that shares it with an earlier one."""
    if answer.failure is not None:
        return answer
    return Answer(replace(answer.value, usage=NOTHING_USED))


def _summarise(model: str, content: str, question: str, limit: int) -> SummaryReply:
    """Call the model and return its summary, or the reason why there is none.

    In both cases the reply has the usage of the model calls.
    """
    compact_result = result_writer().compact_result
    usages = [NOTHING_USED]  # `compact_result` adds the usage of all calls once, at its end
    try:
        text = compact_result(model, content, question, limit, report_usage=usages.append)
    except ContextRenderError as failure:
        return SummaryReply(usages[-1], failure=failure.message)
    return SummaryReply(usages[-1], text)
