"""What stays of a history's text under a budget."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from engine.history.replacement import Replacement


@dataclass(slots=True, frozen=True)
class KeptText:
    """What stays of the text: all but the messages that `left`, those `cut` as they were cut."""

    left: tuple[int, ...] = ()
    cut: Mapping[int, Replacement] = field(default_factory=dict)


ALL_TEXT: Final = KeptText()
