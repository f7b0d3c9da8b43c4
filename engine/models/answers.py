"""What models and embedders answer, waited for where nothing else is held up.

A request has a session and a thread to itself, and a provider may take a minute. So a request that
needs an answer ends by raising `Waiting`; who started it gets the answer elsewhere and starts it
again, and then the answer is there. Where nobody has set out `Answers`, providers are asked on the
spot.
"""

from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


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


class Waiting(BaseException):
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


class Answers:
    """Those that came for one request; `used`: since that was last set, one was made use of."""

    def __init__(self) -> None:
        self.used = False
        self._come: dict[Hashable, Answer] = {}

    def put(self, waiting: Waiting, answer: Answer) -> None:
        """What is waited for has come."""
        self._come[waiting.key] = answer

    def take(self, key: Hashable) -> Answer | None:
        """The answer of that key, if it has come."""
        answer = self._come.get(key)
        self.used = self.used or answer is not None
        return answer


ANSWERS: ContextVar[Answers | None] = ContextVar("answers", default=None)


def answer_of[T](
    key: Hashable,
    ask: Callable[[], T],
    *,
    quick: bool = False,
    free: Callable[[Answer], Answer] = lambda answer: answer,
) -> T:
    """What `ask` gives or raises. Raises Waiting where somebody else is to wait for it.

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
    raise Waiting(key, ask)
