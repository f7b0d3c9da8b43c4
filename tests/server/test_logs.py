"""A log line says where and what kind, never what."""

import logging

from contextrender_bridge.server.logs import ContentFreeFormatter


def line(name: str) -> str:
    try:
        try:
            raise KeyError("SECRET")
        except KeyError as cause:
            raise ValueError("SECRET") from cause
    except ValueError as failure:
        info = (ValueError, failure, failure.__traceback__)
        record = logging.LogRecord(name, logging.ERROR, "a/b.py", 7, "SECRET %s", ("x",), info)
    return ContentFreeFormatter().format(record)


def test_another_packages_message_is_withheld() -> None:
    text = line("jaclang.runtimelib.memory")
    assert text.startswith(
        "ERROR jaclang.runtimelib.memory b.py:7 (message withheld) ValueError at"
    )
    assert ", after KeyError at test_logs.py" in text
    assert "SECRET" not in text


def test_our_own_message_is_shown() -> None:
    assert "SECRET x ValueError at" in line("contextrender")
