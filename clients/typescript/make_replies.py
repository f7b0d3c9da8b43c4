"""Write the replies' types from the service's own views: of Python's and TypeScript's client.

The console imports the latter.

python clients/typescript/make_replies.py
"""

import dataclasses
import inspect
import textwrap
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

ROOT = Path(__file__).parent.parent.parent
PYTHON = ROOT / "py_bridge" / "contextrender_bridge" / "client" / "replies.py"
TYPESCRIPT = ROOT / "clients" / "typescript" / "src" / "replies.ts"
METHODS = (
    "delete_session",
    "explain",
    "export_session",
    "import_session",
    "inspect_session",
    "list_sessions",
    "recall",
    "render",
    "sync",
)
"""The walkers that the clients have methods for."""
HEAD = "The replies of the service. Made by make_replies.py: change it there."
IMPORTS = """from __future__ import annotations

from typing import TypedDict

from contextrender_bridge.base.wire import Json
"""
PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}
WIDTH = 100


def reply_files(walkers: Mapping[str, type]) -> dict[Path, str]:
    """Return the text of each file."""
    return {
        PYTHON: "\n\n".join(
            [f'"""{HEAD} Long because it has all."""\n\n{IMPORTS}']
            + [_class(view) for view in _views(walkers, METHODS)]
        ),
        TYPESCRIPT: "\n".join(
            [f"/** {HEAD} Long because it has all. */\n"]
            + [_comment(view) + _interface(view) for view in _views(walkers, sorted(walkers))]
        ),
    }


def _views(walkers: Mapping[str, type], names: Iterable[str]) -> Iterable[Any]:
    """Return the views that these walkers report, each after the views in its fields."""
    reports = [get_type_hints(walkers[name])["reports"] for name in names]
    return dict.fromkeys(view for hint in reports for view in _views_in(hint))


def _views_in(hint: Any) -> Iterator[Any]:
    for inner in get_args(hint):
        yield from _views_in(inner)
    if _is_view(hint):
        for field in _fields(hint).values():
            yield from _views_in(field)
        yield hint


def _is_view(hint: Any) -> bool:
    return dataclasses.is_dataclass(hint) or is_typeddict(hint)


def _fields(view: Any) -> dict[str, Any]:
    hints = get_type_hints(view)
    if is_typeddict(view):
        return hints
    return {field.name: hints[field.name] for field in dataclasses.fields(view)}


def _class(view: Any) -> str:
    fields = "".join(f"    {name}: {_annotation(hint)}\n" for name, hint in _fields(view).items())
    lines = textwrap.wrap(" ".join(f'"""{inspect.getdoc(view)}'.split()), WIDTH - 7)
    doc = "\n".join(lines) + ("\n" if len(lines) > 1 else "") + '"""'
    return f"class {view.__name__}(TypedDict):\n{textwrap.indent(doc, '    ')}\n\n{fields}"


def _annotation(hint: Any) -> str:
    if hint in PLAIN:
        return "None" if hint is type(None) else str(hint.__name__)
    if _is_view(hint):
        return str(getattr(hint, "__name__", hint))
    origin, inner = get_origin(hint), get_args(hint)
    if origin is dict and inner[1] in (Any, object):
        return "Json"
    if origin in (list, dict):
        return f"{origin.__name__}[{', '.join(map(_annotation, inner))}]"
    if origin in (Union, types.UnionType):
        return " | ".join(map(_annotation, inner))
    raise TypeError(f"no name for {hint}")


def _interface(view: Any) -> str:
    fields = "".join(f"  {name}: {_type(hint)};\n" for name, hint in _fields(view).items())
    return f"export interface {view.__name__} {{\n{fields}}}\n"


def _comment(view: Any) -> str:
    text = inspect.getdoc(view) or ""
    line = f"/** {text} */\n"
    if len(line) <= WIDTH and "\n" not in text:
        return line
    return "/**\n" + "".join(f" * {line}".rstrip() + "\n" for line in text.splitlines()) + " */\n"


def _type(hint: Any) -> str:
    if hint in PLAIN:
        return PLAIN[hint]
    if hint in (Any, object):
        return "unknown"
    if _is_view(hint):
        return str(getattr(hint, "__name__", hint))
    origin, inner = get_origin(hint), get_args(hint)
    if origin is list:
        item = _type(inner[0])
        return f"({item})[]" if "|" in item else f"{item}[]"
    if origin is dict:
        return f"Record<string, {_type(inner[1])}>"
    if origin in (Union, types.UnionType):
        return " | ".join(map(_type, inner))
    raise TypeError(f"no TypeScript for {hint}")


if __name__ == "__main__":
    from contextrender_bridge.base.paths import app_dir
    from contextrender_bridge.server.runtime import load_app

    for path, text in reply_files(load_app(app_dir())).items():
        path.write_text(text)
