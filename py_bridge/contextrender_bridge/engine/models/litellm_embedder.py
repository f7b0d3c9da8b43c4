"""Embeddings by any provider that LiteLLM can call.

LiteLLM reads the keys and addresses from the environment. Long because the rules for a provider's
failures, limits and retries belong to one embedder.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.spans import span
from contextrender_bridge.engine.history.growable_arrays import Vectors, normalize
from contextrender_bridge.engine.models.providers import Answer, answer_of, input_limit, litellm
from contextrender_bridge.engine.text.tokens import counter_for, well_formed


class CircuitBreaker:
    """A guard that refuses calls for `cooldown` seconds after a failure, then allows one trial.

    It is thread-safe. `clock` returns seconds that never decrease.
    """

    def __init__(self, cooldown: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Start as after a success, so that calls are allowed."""
        self._cooldown = cooldown
        self._clock = clock
        self._lock = threading.Lock()
        self._retry_at: float | None = None  # the time of the next trial; None after a success

    @property
    def refuses(self) -> bool:
        """True if a call would be refused now."""
        with self._lock:
            return self._retry_at is not None and self._clock() < self._retry_at

    @property
    def is_open(self) -> bool:
        """True from a failure until the next success."""
        with self._lock:
            return self._retry_at is not None

    def allow(self) -> bool:
        """Return whether a call may be made now.

        The first call after the cool-down is a trial. Refuse other calls for another cool-down, or
        until the trial succeeds.
        """
        with self._lock:
            if self._retry_at is None:
                return True
            if self._clock() < self._retry_at:
                return False
            self._retry_at = self._clock() + self._cooldown
            return True

    def succeed(self) -> None:
        """Record a success. Calls are allowed again."""
        with self._lock:
            self._retry_at = None

    def fail(self) -> None:
        """Record a failure. Calls are refused for `cooldown` seconds from now."""
        with self._lock:
            self._retry_at = self._clock() + self._cooldown


BATCH_TEXTS: Final = 128
BATCH_TOKENS: Final = 200_000
"""The largest numbers of texts and of tokens in one request."""
DEFAULT_INPUT_LIMIT: Final = 8_191
"""The largest number of tokens of a text, for a model that LiteLLM does not list."""

_TRANSIENT: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
"""The HTTP statuses of failures after which a request is retried."""


class EmbeddingUnavailable(ContextRenderError):
    """A failure of the embedding provider, or vectors that cannot be used."""

    code = "embedding_unavailable"
    status = 503


class LiteLLMEmbedder:
    """An embedder that calls a provider in batches, each text cut to the model's input limit.

    A request takes at most `timeout` seconds. After a transient failure it is retried up to
    `retries` times. The first pause before a retry takes about `pause` seconds, each later pause
    twice as long. No retry starts after `deadline` seconds. After a failed call, the breaker
    refuses calls for its cool-down. The embedder is thread-safe.
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
        """Set up an embedder for `model`, a name of LiteLLM such as `text-embedding-3-small`.

        The docstring of the class explains the other parameters.
        """
        self.name = model
        self._timeout = timeout
        self._retries = retries
        self._deadline = deadline
        self._pause = pause
        self._breaker = breaker or CircuitBreaker()
        self._dimension = 0

    @property
    def is_failing(self) -> bool:
        """True if the last call to the provider failed."""
        return self._breaker.is_open

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit rows, shape (n, d). A blank text and a refused text have a row of zeros.

        The dimension d is 0 until the provider has embedded a text. Raise EmbeddingUnavailable if
        the provider fails, or failed a moment ago.
        """
        return self.embed_once(texts)[0]

    def embed_once(self, texts: Sequence[str]) -> tuple[Vectors, bool]:
        """Return the rows of `embed`, and whether the caller must count the embedded tokens.

        If several requests wait for the same answer, only the first of them must count the tokens.
        """
        # Blank texts are not sent to the provider.
        text_of_row = {row: text for row, text in enumerate(texts) if text.strip()}
        if not text_of_row:
            return np.zeros((len(texts), self._dimension), dtype=np.float32), True
        key = ("embedding", self.name, *text_of_row.values())
        # The first request gets true with its vectors. `answer_of` gives the other waiting requests
        # the same vectors with false (`_without_usage`).
        vectors, counts_tokens = answer_of(
            key,
            lambda: (self._embed_with_breaker(list(text_of_row.values())), True),
            is_quick=self._breaker.refuses,  # then the call fails at once, so it need not wait
            without_usage=_without_usage,
        )
        self._dimension = vectors.shape[1]
        rows = np.zeros((len(texts), self._dimension), dtype=np.float32)
        rows[list(text_of_row)] = vectors
        return rows, counts_tokens

    def _embed_with_breaker(self, texts: list[str]) -> Vectors:
        """Return the texts' vectors. Raise EmbeddingUnavailable if the breaker refuses the call."""
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
        """Return the vectors of the texts, with one request per batch.

        A text that the provider refuses has a vector of zeros.
        """
        stop_time = time.monotonic() + self._deadline
        rows: list[Vectors | None] = []  # None for a refused text
        for batch in self._batches(texts):
            try:
                rows += self._request(batch, stop_time)
            except litellm().BadRequestError as refusal:
                rows += self._embed_one_by_one(batch, stop_time, refusal)
        dimensions = {len(row) for row in rows if row is not None}
        if len(dimensions) != 1:
            raise EmbeddingUnavailable(f"embedding model {self.name} gave no usable vectors")
        zero = np.zeros(dimensions.pop(), dtype=np.float32)
        return np.stack([zero if row is None else row for row in rows])

    def _batches(self, texts: list[str]) -> Iterator[list[str]]:
        """Yield the texts, cut to the model's input limit, in batches of one request each."""
        counter = counter_for(self.name)
        limit = input_limit(self.name, DEFAULT_INPUT_LIMIT)
        batch: list[str] = []
        batch_tokens = 0
        for text in texts:
            cut_text = counter.cut(well_formed(text), limit)
            tokens = counter.text(cut_text)
            if batch and (len(batch) == BATCH_TEXTS or batch_tokens + tokens > BATCH_TOKENS):
                yield batch
                batch, batch_tokens = [], 0
            batch.append(cut_text)
            batch_tokens += tokens
        yield batch

    def _embed_one_by_one(
        self, batch: list[str], stop_time: float, refusal: Exception
    ) -> list[Vectors | None]:
        """Return the vectors of a batch that the provider refused, with one request per text.

        A text that is refused again has None. Raise EmbeddingUnavailable if every text is refused.
        """
        rows: list[Vectors | None] = []
        if len(batch) > 1:  # a batch of one text was already refused by itself
            for text in batch:
                try:
                    rows += self._request([text], stop_time)
                except litellm().BadRequestError:
                    rows.append(None)
        if all(row is None for row in rows):
            raise EmbeddingUnavailable(
                f"embedding model {self.name} refused the request"
            ) from refusal
        return rows

    def _request(self, batch: list[str], stop_time: float) -> list[Vectors]:
        """Return the vectors of a batch from the provider. Retry after transient failures.

        Raise BadRequestError if the provider refuses the texts, and EmbeddingUnavailable after any
        other failure.
        """
        for attempt in range(self._retries + 1):
            try:
                with span("provider embedding", gen_ai__request__model=self.name):
                    reply = litellm().embedding(
                        model=self.name, input=batch, timeout=self._timeout, max_retries=0
                    )
            except litellm().BadRequestError:  # a retry would be refused, too
                raise
            except Exception as error:  # LiteLLM has no class for all providers' errors
                pause = self._pause * 2**attempt * random.uniform(0.75, 1.25)
                is_transient = getattr(error, "status_code", None) in _TRANSIENT
                has_time = time.monotonic() + pause <= stop_time
                if attempt == self._retries or not (is_transient and has_time):
                    raise EmbeddingUnavailable(
                        f"embedding model {self.name} failed: {type(error).__name__}"
                    ) from error
                time.sleep(pause)
            else:
                return self._vectors(reply, len(batch))
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _vectors(self, reply: Any, count: int) -> list[Vectors]:
        """Return the vectors of a provider's reply, scaled to length 1.

        Raise EmbeddingUnavailable unless the reply has `count` vectors of one dimension.
        """
        try:
            items = sorted(reply.data, key=lambda item: int(item["index"]))
            vectors = [np.asarray(item["embedding"], dtype=np.float32) for item in items]
        except (KeyError, TypeError, ValueError) as error:
            raise EmbeddingUnavailable(f"embedding model {self.name} gave no vectors") from error
        if not all(np.isfinite(vector).all() for vector in vectors):
            raise EmbeddingUnavailable(f"embedding model {self.name} gave vectors with NaN in them")
        rows = [normalize(vector) for vector in vectors]
        if len(rows) != count or len({row.shape for row in rows}) != 1:
            raise EmbeddingUnavailable(
                f"embedding model {self.name} gave {len(rows)} vectors for {count} texts"
            )
        return rows


def _without_usage(answer: Answer) -> Answer:
    """Return an answer of `embed_once` for a request that is not the first to take the answer.

    In it, the second value is false, so the request does not count the tokens again.
    """
    if answer.failure is not None:
        return answer
    vectors, _ = answer.value
    return Answer((vectors, False))
