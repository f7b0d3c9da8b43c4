"""What wrap knows of an agent: how one run of it is redirected, by flags and environment alone."""

from __future__ import annotations

import codecs
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

MCP_NAME = "contextrender"


@dataclass(frozen=True)
class RunRequest:
    """One run as the user asked for it.

    `folder` is for files that only this run reads; it is the run's own, and goes with it.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    folder: Path

    @property
    def home(self) -> Path:
        """The user's home, as the agent sees it."""
        return Path(self.environment.get("HOME") or Path.home())

    def get(self, *names: str) -> str:
        """The first of these variables that is set; empty if none is."""
        return next((value for name in names if (value := self.environment.get(name))), "")


@dataclass
class Redirect:
    """The same run with the proxy before its provider.

    `environment` holds only what is added, `files` what is written for as long as the run takes,
    where the agent reads nothing else. Without `stands_between` it makes no model calls, and
    is run as it is.
    """

    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stands_between: bool = True
    files: dict[Path, str] = field(default_factory=dict)


class Agent(ABC):
    """A kind of agent. `program` is its command, `install` how one gets it.

    With `has_bare_calls` its model calls without tools are titles, summaries and the like, which go
    through unread.
    """

    program: str
    install = ""
    has_bare_calls = False

    @abstractmethod
    def redirect(self, given: RunRequest, doors: ProviderRoutes) -> Redirect:
        """The run through `doors`. Raises CommandError where that cannot be."""

    def passes(self, body: bytes) -> bool:
        """Return whether a model call goes through unread: it has no tools, or none in its list."""
        return self.has_bare_calls and _TOOLS.search(body) is None


def unchanged(given: RunRequest) -> Redirect:
    """The run as the user gave it: there is nothing to stand between."""
    return Redirect(list(given.arguments), stands_between=False)


def first_word(arguments: Sequence[str]) -> str:
    """The first argument if it is a word, not an option."""
    return arguments[0] if arguments and not arguments[0].startswith("-") else ""


def is_question(arguments: Sequence[str], version: str) -> bool:
    """Whether they ask for help, or for the `version`, by its short option too."""
    return not {"--help", "-h", "--version", version}.isdisjoint(arguments)


def value_of(arguments: Sequence[str], *names: str) -> str:
    """The last value of an option, as `--name value` or `--name=value`; else empty."""
    found = ""
    for place, word in enumerate(arguments):
        if word == "--":
            break
        if word in names and place + 1 < len(arguments):
            found = arguments[place + 1]
        for name in names:
            if name.startswith("--") and word.startswith(f"{name}="):
                found = word[len(name) + 1 :]
    return found


def read_file(path: Path, parse: Callable[[str], Any]) -> Json:
    """The object that `parse` makes of a file's text; empty if there is no file.

    Raises CommandError when it cannot be read.
    """
    try:
        found = parse(_text_of(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(f"{path} cannot be read ({type(error).__name__}).") from None
    return table(found)


def _text_of(raw: bytes) -> str:
    """Return a file's text, whatever byte order mark an editor has put before it."""
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace")
    return raw.decode("utf-8-sig", "replace")


def read_json(path: Path) -> Json:
    """A JSON object from a file, as `parse_json` and `read_file`."""
    return read_file(path, lambda text: parse_json(text, str(path)))


def parse_json(text: str, where: str) -> Json:
    """A JSON object with comments and trailing commas. Raises CommandError."""
    try:
        value = json.loads(_without_comments(text)) if text.strip() else {}
    except ValueError:
        raise CommandError(f"{where} is no JSON.") from None
    return table(value)


def table(value: object) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def merged(one: Json, other: Json) -> Json:
    """`other` over `one`, key by key."""
    both = {**one, **other}
    for key in one.keys() & other.keys():
        if isinstance(one[key], dict) and isinstance(other[key], dict):
            both[key] = merged(one[key], other[key])
    return both


_TOOLS = re.compile(rb'"tools"\s*:\s*\[\s*[^\]\s]')
_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


def _without_comments(text: str) -> str:
    for pattern in (_COMMENT, _COMMA):
        text = pattern.sub(lambda found: found[1] or "", text)
    return text
