"""Functions that parse a setting's text. They raise InvalidSetting for an impossible value."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

MODES = ("render", "observe", "bypass")
LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
POLICIES = (
    "contextrender",
    "recency",
    "reuse",
    "relevance",
    "recency_relevance",
    "prune",
    "full",
    "semantic_retrieval",
    "reuse_density",
    "contextrender_excerpts",
    "contextrender_cache_aware",
)
"""The engine's policies, named here again because a proxy may run without the engine."""

AUTO = "auto"
"""The budget that adjusts itself."""

LIVE_BUDGET = AUTO
LIVE_POLICY = "contextrender_cache_aware"
"""The default policy of `fit`, proxy and adapters, the best for a live agent (docs/policies.md)."""
PRICE_EXAMPLE = "MODEL:input=2,cached=0.5,output=8"
SMALLEST_BUDGET = 64
MAX_NAMES = 100
MAX_NAME_LENGTH = 200
"""The service's limits of a list of tools: the number of names, and the characters of each."""
LONGEST_NUMBER = 9
"""The largest number of digits in a whole number."""
_WHOLE_NUMBER = re.compile(r"([0-9]{1,3}(?:[_,][0-9]{3})+|[0-9]+)(?:\.0*)?")
MIN_SECRET_BYTES = 32
MIN_SECRET_CHARACTERS = 8
"""The least number of different characters in a secret. After a power cut, its file may have
nothing but zeros."""


class InvalidSetting(ValueError):
    """An error for a value that a setting cannot have. Its text says what the value must be."""


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """Return a parser that returns one of `names` and raises InvalidSetting for any other text."""

    def read(text: str) -> str:
        if text not in names:
            raise InvalidSetting(f"must be one of {', '.join(names)}")
        return text

    return read


def _is_address(text: str) -> bool:
    """Return whether a text is an HTTP address with a host, and with a valid port if it has one."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


as_policy = one_of(POLICIES)


def as_base_address(text: str) -> str:
    """Return a provider's base address. Append `/v1` if it has no path."""
    text = text.rstrip("/")
    if not _is_address(text):
        raise InvalidSetting("must begin with http:// or https://")
    return text if urlsplit(text).path else f"{text}/v1"


def whole_number(text: str) -> int | None:
    """Return the number in a text such as `6000`, `6_000`, `6,000` or `6000.0`; None for others."""
    match = _WHOLE_NUMBER.fullmatch(text.strip())
    digits = re.sub("[_,]", "", match[1]) if match else ""
    return int(digits) if 0 < len(digits) <= LONGEST_NUMBER else None


def as_count(text: str) -> int:
    """Return a whole number above 0."""
    number = whole_number(text)
    if not number:
        raise InvalidSetting("must be a whole number above 0")
    return number


def as_budget(text: str) -> int | str:
    """Return a budget in tokens, or `auto`."""
    budget = budget_of(text)
    if budget is None:
        raise InvalidSetting(
            f"must be auto, or a whole number of tokens, at least {SMALLEST_BUDGET}"
        )
    return budget


def budget_of(text: str) -> int | str | None:
    """Return the budget in a text: a number of tokens, or `auto`; None if it is invalid."""
    if text.strip().lower() == AUTO:
        return AUTO
    number = whole_number(text)
    return number if number and number >= SMALLEST_BUDGET else None


def as_seconds(text: str) -> float:
    """Return a time in seconds, below an hour."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 3600:
        raise InvalidSetting("must be a number of seconds above 0, below 3600")
    return seconds


def as_switch(text: str) -> bool:
    """Return True for texts such as `on` and `1`, False for texts such as `off` and `0`."""
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise InvalidSetting("must be on or off")


def as_list(text: str) -> tuple[str, ...]:
    """Return the entries of a comma-separated list, in order."""
    return tuple(entry.strip() for entry in text.split(",") if entry.strip())


def as_names(text: str) -> frozenset[str]:
    """Return the names in a comma-separated list, in lower case."""
    return frozenset(as_list(text.lower()))


def as_patterns(text: str) -> frozenset[str]:
    """Return the names and globs in a comma-separated list, within the service's limits."""
    names = frozenset(as_list(text))
    if len(names) > MAX_NAMES or any(len(name) > MAX_NAME_LENGTH for name in names):
        raise InvalidSetting(
            f"must be at most {MAX_NAMES} names of up to {MAX_NAME_LENGTH} characters"
        )
    if any(map(_has_open_bracket, names)):
        raise InvalidSetting("has a [ without a ]")
    return names


def _has_open_bracket(glob: str) -> bool:
    """Return whether the first `[` of a glob is never closed by a `]`."""
    _, bracket, rest_of_glob = glob.partition("[")
    # Directly after the [, a ] is a character of the set.
    return bool(bracket) and "]" not in rest_of_glob[1:]


def as_share(text: str) -> float:
    """Return a share below 1, from `10%` or `0.1`."""
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InvalidSetting("must be a share such as 10%, below 100%")
    return share


def as_prices(text: str) -> dict[str, dict[str, float]]:
    """Return the prices by model, and for each model by kind of token.

    The text has the form `MODEL:input=2,cached=0.5,output=8`, with `;` between models. The prices
    are dollars per million tokens.
    """
    prices: dict[str, dict[str, float]] = {}
    for entry in text.split(";"):
        if not entry.strip():
            continue
        model, _, numbers_text = entry.strip().rpartition(":")
        numbers = _price_numbers(numbers_text)
        if not (model and numbers):
            raise InvalidSetting(f"must be as {PRICE_EXAMPLE} (dollars for a million tokens)")
        prices[model] = numbers
    return prices


def _price_numbers(text: str) -> dict[str, float]:
    """Return the numbers in a text such as `input=2,output=8`, by name; empty if it is invalid.

    `input` and `output` are required, `cached` and `written` are optional.
    """
    try:
        pairs = (pair.split("=") for pair in text.split(","))
        numbers = {name.strip(): float(number) for name, number in pairs}
    except ValueError:
        return {}
    is_complete = {"input", "output"} <= numbers.keys()
    is_known = numbers.keys() <= {"input", "cached", "written", "output"}
    in_range = all(0 <= number < 1e6 for number in numbers.values())
    return numbers if is_complete and is_known and in_range else {}


def as_price_text(text: str) -> str:
    """Return the text, if `as_prices` accepts it."""
    as_prices(text)
    return text


def as_secret(text: str) -> str:
    """Return the text if it is long and varied enough to sign tokens and links with."""
    if len(text.encode()) < MIN_SECRET_BYTES:
        raise InvalidSetting(f"must have at least {MIN_SECRET_BYTES} bytes")
    if len(set(text)) < MIN_SECRET_CHARACTERS:
        raise InvalidSetting(f"must have at least {MIN_SECRET_CHARACTERS} different characters")
    return text


def as_address(text: str) -> str:
    """Return a service's address without its last slash."""
    if not _is_address(text):
        raise InvalidSetting(f"is {text!r:.60}: an address such as http://127.0.0.1:8000 is needed")
    return text.rstrip("/")


def as_folder(text: str) -> Path:
    """Return a path; `~` is this user's home."""
    return Path(text).expanduser()
