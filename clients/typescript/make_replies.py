"""Writes the replies' types in TypeScript: the client's from the Python client's, the console's
from the service's own views.

python clients/typescript/make_replies.py
"""

import dataclasses
import inspect
import types
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from contextrender_bridge.client import replies

HERE = Path(__file__).parent
CLIENT = HERE / "src" / "replies.ts"
CONSOLE = HERE.parent.parent / "console" / "src" / "types.ts"
HEAD = "/** The replies of the service. Made by make_replies.py: change it there. */\n"
ALL = HEAD.replace(" */", " Long because it has all. */")
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
ANYTHING = "unknown"
WIDTH = 100


def of_the_client() -> str:
    """The text of `CLIENT`."""
    views = [view for view in vars(replies).values() if is_typeddict(view)]
    return "\n".join([HEAD, *map(_interface, views)])


def of_the_console(walkers: Mapping[str, type]) -> str:
    """The text of `CONSOLE`: what the walkers report, each view behind those that it has."""
    reports = [get_type_hints(walkers[name])["reports"] for name in sorted(walkers)]
    views = dict.fromkeys(view for hint in reports for view in _views_in(hint))
    return "\n".join([ALL, *map(_interface, views)])


def _views_in(hint: Any) -> Iterator[Any]:
    for inner in get_args(hint):
        yield from _views_in(inner)
    if dataclasses.is_dataclass(hint):
        for field in _fields(hint).values():
            yield from _views_in(field)
        yield hint


def _fields(view: Any) -> dict[str, Any]:
    hints = get_type_hints(view)
    if is_typeddict(view):
        return hints
    return {field.name: hints[field.name] for field in dataclasses.fields(view)}


def _interface(view: Any) -> str:
    fields = "".join(f"  {name}: {_type(hint)};\n" for name, hint in _fields(view).items())
    return f"{_comment(view)}export interface {view.__name__} {{\n{fields}}}\n"


def _comment(view: Any) -> str:
    text = inspect.getdoc(view) or ""
    line = f"/** {text} */\n"
    if len(line) <= WIDTH and "\n" not in text:
        return line
    return "/**\n" + "".join(f" * {one}".rstrip() + "\n" for one in text.splitlines()) + " */\n"


def _type(hint: Any) -> str:
    if hint in PLAIN:
        return PLAIN[hint]
    if hint in (Any, object):
        return ANYTHING
    if is_typeddict(hint) or dataclasses.is_dataclass(hint):
        return str(hint.__name__)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is list:
        item = _type(inner[0])
        return f"({item})[]" if "|" in item else f"{item}[]"
    if origin is dict:
        return f"Record<string, {_type(inner[1])}>"
    if origin in (Union, types.UnionType):
        return " | ".join(_type(one) for one in inner)
    raise TypeError(f"no TypeScript for {hint}")


if __name__ == "__main__":
    from contextrender_bridge.base.paths import app_dir
    from contextrender_bridge.server.runtime import load_app

    CLIENT.write_text(of_the_client())
    CONSOLE.write_text(of_the_console(load_app(app_dir())))
