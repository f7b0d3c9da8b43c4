"""Writes src/replies.ts: the replies' types, made from the Python client's.

python clients/typescript/make_replies.py
"""

import inspect
import types
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from contextrender_bridge.client import replies

HERE = Path(__file__).parent
TARGET = HERE / "src" / "replies.ts"
HEAD = "/** The replies of the service. Made by make_replies.py: change it there. */\n"
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
WIDTH = 100


def written() -> str:
    """The file's text."""
    views = [view for view in vars(replies).values() if is_typeddict(view)]
    return "\n".join([HEAD, *(_interface(view) for view in views)])


def _interface(view: Any) -> str:
    fields = "".join(f"  {name}: {_type(hint)};\n" for name, hint in get_type_hints(view).items())
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
    if is_typeddict(hint):
        return str(hint.__name__)
    origin, inner = get_origin(hint), get_args(hint)
    if origin is list:
        item = _type(inner[0])
        return f"({item})[]" if "|" in item else f"{item}[]"
    if origin is dict:
        return "Record<string, unknown>"
    if origin in (Union, types.UnionType):
        return " | ".join(_type(one) for one in inner)
    raise TypeError(f"no TypeScript for {hint}")


if __name__ == "__main__":
    TARGET.write_text(written())
