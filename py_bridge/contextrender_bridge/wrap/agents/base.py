"""The interface of an agent: how a run of it is redirected by options, variables and files."""

import codecs
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.wrap.provider_routes import ProviderRoutes

MCP_NAME = "contextrender"
_TOOLS = re.compile(rb'"tools"\s*:\s*\[\s*[^\]\s]')
_STRING = r'"(?:\\.|[^"\\])*"'
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"({_STRING})|,(?=\s*[}}\]])", re.DOTALL)


@dataclass(frozen=True)
class RunRequest:
    """One run of an agent as the user requested it.

    `folder` is for files that only this run reads. It is deleted when the run ends.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    folder: Path

    @property
    def home(self) -> Path:
        """The user's home folder in the agent's environment."""
        return Path(self.environment.get("HOME") or Path.home())

    def get(self, *names: str) -> str:
        """Return the value of the first of these variables that is set; empty if none is."""
        return next((value for name in names if (value := self.environment.get(name))), "")

    @property
    def command(self) -> str:
        """The first argument if it is not an option; otherwise an empty text."""
        first = next(iter(self.arguments), "")
        return "" if first.startswith("-") else first

    def asks_help_or_version(self, short_version: str) -> bool:
        """Return whether the arguments only request the agent's help or version.

        `short_version` is the agent's short option for the version, such as `-v`.
        """
        return not {"--help", "-h", "--version", short_version}.isdisjoint(self.arguments)

    def run_unchanged(self) -> "Redirect":
        """Return the run as the user requested it, for commands that make no model calls."""
        return Redirect(list(self.arguments), makes_model_calls=False)

    def value_of(self, *names: str) -> str:
        """Return the value of an option, as `--name value` or `--name=value`; "" if absent.

        `names` are the option's names, such as `--model` and `-m`. If it is repeated, the last
        value is returned. Words after `--` are no options.
        """
        values = [value for value, _ in split_options(self.arguments, *names) if value]
        return values[-1] if values else ""


@dataclass
class Redirect:
    """A run with the proxy between the agent and its provider.

    `environment` has only the variables that are added. `files` maps paths to contents: the files
    exist while the run lasts, for agents that read some settings only from files. `notes` are
    sentences for the user. If `makes_model_calls` is false, the run needs no proxy. `providers` are
    the addresses of the providers that the run is expected to call, None if it may call all routes.
    """

    arguments: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    makes_model_calls: bool = True
    providers: list[str] | None = None
    files: dict[Path, str] = field(default_factory=dict)

    def expected_providers(self, routes: ProviderRoutes) -> list[str]:
        """Return the addresses of the providers that the run is expected to call."""
        return list(routes.upstreams.values()) if self.providers is None else self.providers


class Agent(ABC):
    """An agent program. `program` is its command, `install` the command that installs it.

    If `has_bare_calls` is true, the agent makes model calls without tools for titles, summaries and
    the like. The proxy forwards its calls without tools unchanged.
    """

    program: str
    install = ""
    has_bare_calls = False

    @abstractmethod
    def redirect(self, request: RunRequest, routes: ProviderRoutes) -> Redirect:
        """Return the run, changed so that its model calls go through `routes`.

        Add a route for each provider that the agent may call. Raise CommandError if the run cannot
        be redirected.
        """

    def is_passed_through(self, body: bytes) -> bool:
        """Return whether the proxy forwards a model call unchanged, given its body.

        It does if the body has no tools and the agent `has_bare_calls`.
        """
        return self.has_bare_calls and _TOOLS.search(body) is None


def split_options(
    arguments: Sequence[str], *names: str
) -> Iterator[tuple[str | None, Sequence[str]]]:
    """Yield the arguments in order: each option of these names as its value and its words.

    The value is the next word, or attached as in `--name=value`, `-n=value` or `-nkey=value`. It is
    None for all other words, and for words after `--`, which are no options.
    """
    words = iter(arguments)
    for word in words:
        name, equals_sign, attached_value = word.partition("=")
        if word == "--":
            yield None, [word, *words]
        elif word in names:
            value = next(words, "")
            yield value, [word, value]
        elif equals_sign and name in names:
            yield attached_value, [word]
        elif equals_sign and word[:2] in names:
            yield word[2:], [word]
        else:
            yield None, [word]


def read_file(path: Path, parse: Callable[[str], Any]) -> Json:
    """Return the object that `parse` makes from a file's text.

    Return an empty object if there is no file, or if the value is not an object. Raise CommandError
    if the file cannot be read or parsed.
    """
    try:
        value = parse(_text_of(path.read_bytes()))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(f"{path} cannot be read ({type(error).__name__}).") from None
    return as_object(value)


def _text_of(raw: bytes) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 if a byte order mark shows that.

    The mark is left out, and invalid bytes are replaced.
    """
    if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return raw.decode("utf-16", "replace")
    return raw.decode("utf-8-sig", "replace")


def read_json(path: Path) -> Json:
    """Return the JSON object in a file, in which comments and trailing commas are allowed.

    Return an empty object if there is no file. Raise CommandError if it cannot be read.
    """
    return read_file(path, lambda text: parse_json(text, str(path)))


def parse_json(text: str, place: str) -> Json:
    """Return the JSON object in a text, in which comments and trailing commas are allowed.

    Return an empty object if the text is empty or has another value. Raise CommandError if the text
    is not JSON, with a message that names its `place`.
    """
    try:
        value = json.loads(_without_comments(text)) if text.strip() else {}
    except ValueError:
        raise CommandError(f"{place} is not valid JSON.") from None
    return as_object(value)


def as_object(value: object) -> Json:
    """Return the value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def merge(base: Json, overlay: Json) -> Json:
    """Return an object with the fields of both. If both have a field, `overlay`'s value is used.

    Two values that are objects are merged in the same way.
    """
    result = {**base, **overlay}
    for key in base.keys() & overlay.keys():
        if isinstance(base[key], dict) and isinstance(overlay[key], dict):
            result[key] = merge(base[key], overlay[key])
    return result


def _without_comments(text: str) -> str:
    """Return JSON without comments and trailing commas."""
    for pattern in (_COMMENT, _TRAILING_COMMA):
        # Each pattern also matches a string as a whole, and the string is kept (`match[1]`). So
        # nothing inside a string is removed.
        text = pattern.sub(lambda match: match[1] or "", text)
    return text
