"""Embeddings of any provider LiteLLM speaks to; keys and addresses come from its environment."""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.spans import span
from contextrender_bridge.engine.history.growable_arrays import Vectors, unit
from contextrender_bridge.engine.models.providers import Answer, answer_of, input_limit, litellm
from contextrender_bridge.engine.text.tokens import counter_for, well_formed


class CircuitBreaker:
    """After a failure refuses calls for `cooldown` seconds, then lets one through as a trial.

    Thread-safe. `clock` gives seconds and never goes back.
    """

    def __init__(self, cooldown: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._cooldown = cooldown
        self._clock = clock
        self._lock = threading.Lock()
        self._retry_at: float | None = None

    @property
    def refuses(self) -> bool:
        """Whether a call would be refused now."""
        with self._lock:
            return self._retry_at is not None and self._clock() < self._retry_at

    def allow(self) -> bool:
        """Whether a call may be made now; a trial keeps other callers out for `cooldown`."""
        with self._lock:
            if self._retry_at is None:
                return True
            if self._clock() < self._retry_at:
                return False
            self._retry_at = self._clock() + self._cooldown
            return True

    def succeed(self) -> None:
        """Records a success: calls are allowed again."""
        with self._lock:
            self._retry_at = None

    def fail(self) -> None:
        """Records a failure: calls are refused for `cooldown` seconds from now."""
        with self._lock:
            self._retry_at = self._clock() + self._cooldown


BATCH_TEXTS: Final = 128
BATCH_TOKENS: Final = 200_000
DEFAULT_INPUT_LIMIT: Final = 8_191
"""Tokens a text may have when LiteLLM does not list the model."""

_TRANSIENT: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})


class EmbeddingUnavailable(ContextRenderError):
    """The embedding provider cannot be reached, refused, or answered nonsense."""

    code = "embedding_unavailable"
    status = 503


class LiteLLMEmbedder:
    """Embeds through a provider, in batches, each text cut to the model's input limit.

    A transient failure is retried with growing pauses, `timeout` seconds at most a request and no
    new try after `deadline` seconds. After a failed call the provider is left alone for the
    breaker's cool-down. Thread-safe.
    """

    def __init__(
        self,
        model: str,
        *,
        timeout: float = 10.0,
        retries: int = 2,
        deadline: float = 20.0,
        pause: float = 0.5,
        breaker: CircuitBreaker | None = None,
    ) -> None:
        """`model` is a LiteLLM name, as `text-embedding-3-small`; times are in seconds."""
        self.name = model
        self._timeout = timeout
        self._retries = retries
        self._deadline = deadline
        self._pause = pause
        self._breaker = breaker or CircuitBreaker()
        self._dimension = 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Unit rows, shape (n, d); a zero row for a blank text or one the provider refuses.

        d is 0 as long as the provider has embedded nothing. Raises EmbeddingUnavailable when the
        provider fails, and at once during the cool-down after that.
        """
        return self.embed_once(texts)[0]

    def embed_once(self, texts: Sequence[str]) -> tuple[Vectors, bool]:
        """The same, and whether it is this request that pays: of several that wait for one answer
        the first one alone does."""
        wanted = {index: text for index, text in enumerate(texts) if text.strip()}
        if not wanted:
            return np.zeros((len(texts), self._dimension), dtype=np.float32), True
        key = ("embedding", self.name, *wanted.values())
        vectors, pays = answer_of(
            key,
            lambda: (self._asked(list(wanted.values())), True),
            quick=self._breaker.refuses,
            free=_free,
        )
        self._dimension = vectors.shape[1]
        rows = np.zeros((len(texts), self._dimension), dtype=np.float32)
        rows[list(wanted)] = vectors
        return rows, pays

    def _asked(self, texts: list[str]) -> Vectors:
        """Unless the provider is left alone for now."""
        if not self._breaker.allow():
            raise EmbeddingUnavailable(f"embedding model {self.name} failed a moment ago")
        try:
            vectors = self._embed_all(texts)
        except BaseException:
            self._breaker.fail()
            raise
        self._breaker.succeed()
        return vectors

    def _embed_all(self, texts: list[str]) -> Vectors:
        until = time.monotonic() + self._deadline
        rows: list[Vectors | None] = []
        for batch in self._batches(texts):
            try:
                rows += self._request(batch, until)
            except litellm().BadRequestError as refusal:
                rows += self._one_by_one(batch, until, refusal)
        widths = {len(row) for row in rows if row is not None}
        if len(widths) != 1:
            raise EmbeddingUnavailable(f"embedding model {self.name} gave no usable vectors")
        zero = np.zeros(widths.pop(), dtype=np.float32)
        return np.stack([zero if row is None else row for row in rows])

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        counter = counter_for(self.name)
        limit = input_limit(self.name, DEFAULT_INPUT_LIMIT)
        batch: list[str] = []
        spent = 0
        for text in texts:
            cut = counter.cut(well_formed(text), limit)
            tokens = counter.text(cut)
            if batch and (len(batch) == BATCH_TEXTS or spent + tokens > BATCH_TOKENS):
                yield batch
                batch, spent = [], 0
            batch.append(cut)
            spent += tokens
        yield batch

    def _one_by_one(
        self, batch: list[str], until: float, refusal: Exception
    ) -> list[Vectors | None]:
        """The vectors of a refused batch, None for each text refused by itself."""
        rows: list[Vectors | None] = []
        for text in batch if len(batch) > 1 else ():
            try:
                rows += self._request([text], until)
            except litellm().BadRequestError:
                rows.append(None)
        if not any(row is not None for row in rows):
            raise EmbeddingUnavailable(
                f"embedding model {self.name} refused the request"
            ) from refusal
        return rows

    def _request(self, batch: list[str], until: float) -> list[Vectors]:
        for attempt in range(self._retries + 1):
            try:
                with span("provider embedding", gen_ai__request__model=self.name):
                    reply = litellm().embedding(
                        model=self.name, input=batch, timeout=self._timeout, max_retries=0
                    )
            except litellm().BadRequestError:
                raise
            except Exception as error:  # providers' own errors come through LiteLLM untyped
                pause = self._pause * 2**attempt * random.uniform(0.75, 1.25)
                again = getattr(error, "status_code", None) in _TRANSIENT
                if attempt == self._retries or not again or time.monotonic() + pause > until:
                    raise EmbeddingUnavailable(
                        f"embedding model {self.name} failed: {type(error).__name__}"
                    ) from error
                time.sleep(pause)
            else:
                return self._vectors(reply, len(batch))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _vectors(self, reply: Any, count: int) -> list[Vectors]:
        try:
            items = sorted(reply.data, key=lambda item: int(item["index"]))
            given = [np.asarray(item["embedding"], dtype=np.float32) for item in items]
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingUnavailable(f"embedding model {self.name} gave no vectors") from error
        if not all(np.isfinite(row).all() for row in given):
            raise EmbeddingUnavailable(f"embedding model {self.name} gave vectors with NaN in them")
        rows = [unit(row) for row in given]
        if len(rows) != count or len({row.shape for row in rows}) != 1:
            raise EmbeddingUnavailable(
                f"embedding model {self.name} gave {len(rows)} vectors for {count} texts"
            )
        return rows


def _free(answer: Answer) -> Answer:
    """What another request pays for."""
    return answer if answer.failure is not None else Answer((answer.value[0], False))
