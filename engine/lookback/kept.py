"""The pasts kept in process, and the policies they can be looked at under."""

import threading
from collections import OrderedDict

from engine.lookback.past import Past
from engine.lookback.steps import Steps
from engine.models.embeddings import Embedder
from engine.models.summaries import MODEL_POLICIES
from engine.policies import POLICIES
from engine.text.tokens import TokenCounter

MOST_PASTS = 8


class SteppedPast(Past):
    """A past, and its calls in the ways last asked for."""

    def __init__(self, embedder: Embedder, counter: TokenCounter) -> None:
        super().__init__(embedder, counter)
        self.steps = Steps(self)

    @property
    def nbytes(self) -> int:
        """A close estimate of the memory held, in bytes."""
        return super().nbytes + self.steps.nbytes


class Pasts:
    """The pasts kept in process, at most `limit` bytes or the one in use; safe between threads.

    The least recently used are let go.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._guard = threading.Lock()
        self._held: OrderedDict[object, SteppedPast] = OrderedDict()

    def get(self, key: object, embedder: Embedder, counter: TokenCounter) -> SteppedPast:
        """The past of that key, a new one if it is not held."""
        with self._guard:
            past = self._held.setdefault(key, SteppedPast(embedder, counter))
            self._held.move_to_end(key)
            while len(self._held) > 1 and (
                len(self._held) > MOST_PASTS or self.nbytes > self.limit
            ):
                self._held.popitem(last=False)
            return past

    @property
    def nbytes(self) -> int:
        """What they hold, in bytes; about so much while they are being used."""
        return sum(past.nbytes for past in list(self._held.values()))


def policies_without_model(own: str) -> list[str]:
    """The policies a past can be looked at under: those that need no model, and a session's own."""
    return [name for name in POLICIES if name not in MODEL_POLICIES or name == own]
