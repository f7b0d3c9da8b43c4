"""A first run of an adapter's set-up: what is there, whether a call shortens, what to mend.

python -m contextrender_bridge.adapters.check langchain
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import httpx

from contextrender_bridge.adapters.trials import TRIALS
from contextrender_bridge.client import ContextRender
from contextrender_bridge.errors import ContextRenderError
from contextrender_bridge.wire import Json

PROXY = "http://127.0.0.1:8700"
BUDGET = 300
RESULTS = 8
MARKS = [f"host_{number + 1}" for number in range(RESULTS)]


@dataclass(frozen=True)
class Runtime:
    """What one adapter needs: a Python package, or a program; `way` is how it is connected."""

    way: str
    needs: str


RUNTIMES = {
    "acon": Runtime("module", ""),
    "ai_sdk": Runtime("javascript", "node"),
    "appworld": Runtime("module", "appworld"),
    "claude_code": Runtime("proxy", "claude"),
    "claude_code_router": Runtime("proxy", "ccr"),
    "codex": Runtime("proxy", "codex"),
    "google_adk": Runtime("module", "google-adk"),
    "hermes": Runtime("module", "hermes-agent"),
    "langchain": Runtime("module", "langchain"),
    "langchain_js": Runtime("javascript", "node"),
    "litellm": Runtime("proxy", "litellm"),
    "mastra": Runtime("javascript", "node"),
    "meta_are": Runtime("proxy", "are-run"),
    "mini_swe_agent": Runtime("module", "mini-swe-agent"),
    "openai_agents": Runtime("module", "openai-agents"),
    "openai_agents_js": Runtime("javascript", "node"),
    "openclaw": Runtime("proxy", "openclaw"),
    "opencode": Runtime("javascript", "opencode"),
    "portkey": Runtime("proxy", "node"),
    "pydantic_ai": Runtime("module", "pydantic-ai-slim"),
    "smolagents": Runtime("module", "smolagents"),
}


class ToMend(Exception):
    """Something is not as it must be; the text says what to do."""


def checks(name: str, proxy: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """What to look at for an adapter, in order: each gives what it found, or raises ToMend."""
    runtime = RUNTIMES[name]
    if runtime.way == "module":
        yield "runtime", lambda: _package(runtime.needs)
        yield "adapter", lambda: _module(name)
    else:
        yield "runtime", lambda: _program(runtime.needs)
    yield "service", _service
    if name in TRIALS:
        yield "a call", lambda: _tried(name)
    else:
        yield "a call", _shortened
    if runtime.way == "proxy":
        yield "proxy", lambda: _proxy(proxy)


def main(words: list[str] | None = None) -> int:
    """Prints a line for each thing looked at; 1 when something is to be mended."""
    parser = argparse.ArgumentParser(prog="python -m contextrender_bridge.adapters.check")
    parser.add_argument("adapter", choices=sorted(RUNTIMES), metavar="ADAPTER")
    parser.add_argument("--proxy", default=PROXY, metavar="URL", help=f"where it is ({PROXY})")
    args = parser.parse_args(words)
    failed = False
    for what, look in checks(args.adapter, args.proxy.rstrip("/")):
        try:
            print(f"ok    {what}: {look()}")
        except ToMend as problem:
            failed = True
            print(f"MEND  {what}: {problem}")
    return int(failed)


def _package(name: str) -> str:
    if not name:
        return "no package: not looked for"
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        raise ToMend(
            f"{name} is not installed in this Python ({sys.executable}): install it here, or run "
            "this check with the Python that your agent runs in."
        ) from None


def _module(name: str) -> str:
    try:
        return importlib.import_module(f"contextrender_bridge.adapters.{name}").__name__
    except ImportError as error:
        raise ToMend(
            f"the adapter cannot be imported ({error}): is its runtime installed?"
        ) from None


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ToMend(
            f"there is no `{name}` on the path: adapters/README.md says how to install it."
        )
    return found


def _service() -> str:
    try:
        with ContextRender(retries=0) as client:
            client.list_sessions(limit=1)
            return client.url
    except ContextRenderError as error:
        raise ToMend(f"{error.message} Is `contextrender serve` running?") from None


def _shortened() -> str:
    """A history of its own, larger than a small budget; its session is removed again."""
    session = f"check-{uuid.uuid4().hex[:12]}"
    whole = _history()
    try:
        with ContextRender(retries=0) as client:
            found = client.fit(session, whole, budget=BUDGET, deadline=30, fail_open=False)
            client.delete_session(session)
    except ContextRenderError as error:
        raise ToMend(f"it was not shortened: {error.message}") from None
    reply = found.reply
    if not found.changed or reply is None:
        raise ToMend("it was not shortened: is the service of this version?")
    tokens = reply["tokens"]
    return f"{tokens['before']:,} tokens became {tokens['after']:,}, within {BUDGET}"


def _tried(name: str) -> str:
    """The same through the adapter's own hook, in the runtime's own types."""
    session = f"check-{uuid.uuid4().hex[:12]}"
    whole = _history()
    try:
        with ContextRender(retries=0) as client:
            settings = {"client": client, "session": session, "budget": BUDGET, "deadline": 30}
            sent = TRIALS[name](whole, settings)
            failures = client.failures.counts()
            if not failures:
                client.delete_session(session)
    except ImportError as error:
        raise ToMend(f"not tried without the runtime ({error}).") from None
    except ContextRenderError as error:
        raise ToMend(f"it was not shortened: {error.message}") from None
    if failures:
        raise ToMend(f"the adapter sent the history whole: {', '.join(failures)}.")
    kept = sum(f"{mark}_X is next" in str(sent) for mark in MARKS)
    if not 0 < kept < len(MARKS):
        raise ToMend("the adapter sent the history whole: are adapter and runtime of one version?")
    return f"through the adapter {kept} of {len(MARKS)} results were sent, within {BUDGET} tokens"


def _proxy(address: str) -> str:
    try:
        status = httpx.get(f"{address}/contextrender/status", timeout=5, trust_env=False).json()
        failures = status["fail_open"]
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        raise ToMend(
            f"no proxy of ContextRender's answers at {address}: start `contextrender proxy`, or "
            "say where it is with --proxy."
        ) from None
    if failures:
        reasons = ", ".join(f"{reason} {count} times" for reason, count in failures.items())
        raise ToMend(f"at {address}, but histories went through whole: {reasons}.")
    return address


def _history() -> list[Json]:
    messages: list[Json] = [{"role": "user", "content": "Which of the hosts are slow?"}]
    for number in range(RESULTS):
        body = {"name": "look", "arguments": f'{{"host": "host_{number}_X"}}'}
        call = {"id": f"call_{number}", "type": "function", "function": body}
        told = f"host_{number + 1}_X is next. " + "All is well here. " * 20
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": told})
    return messages


if __name__ == "__main__":
    sys.exit(main())
