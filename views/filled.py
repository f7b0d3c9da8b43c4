"""Views of objects that have most of their fields."""

from dataclasses import fields
from typing import Any


def filled(view: Any, *sources: object, **more: object) -> Any:
    """A view with `more`, and each other field from the first of the sources that has it."""
    for field in fields(view):
        for source in sources:
            if field.name not in more and hasattr(source, field.name):
                more[field.name] = getattr(source, field.name)
    return view(**more)
