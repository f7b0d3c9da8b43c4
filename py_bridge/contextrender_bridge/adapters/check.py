"""A first run of an adapter's set-up: what is there, whether a call shortens, what to mend.

The call goes the adapter's own way, with no model: through its hook, in Python or JavaScript, or by
the proxy, which is asked what it would send.

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
from typing import Any

import httpx

from contextrender_bridge.adapters import javascript
from contextrender_bridge.adapters.mending import ToMend
from contextrender_bridge.adapters.trials import TRIALS
from contextrender_bridge.base.errors import ContextRenderError
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import ContextRender

PROXY = "http://127.0.0.1:8700"
BUDGET = 300
RESULTS = 8
Sent = tuple[list[Any], list[str]]
"""What would be sent to the model, and the reasons why it is the whole history."""

MARKS = [f"host_{number + 1}" for number in range(RESULTS)]


@dataclass(frozen=True)
class Runtime:
    """What one adapter needs, a package or a program, and the `way` it is connected."""

    way: str
    needs: str


RUNTIMES = {
    "acon": Runtime("module", ""),
    "ai_sdk": Runtime("javascript", "ai"),
    "appworld": Runtime("module", "appworld"),
    "claude_code": Runtime("proxy", "claude"),
    "claude_code_router": Runtime("proxy", "ccr"),
    "codex": Runtime("proxy", "codex"),
    "google_adk": Runtime("module", "google-adk"),
    "hermes": Runtime("module", "hermes-agent"),
    "langchain": Runtime("module", "langchain"),
    "langchain_js": Runtime("javascript", "langchain"),
    "litellm": Runtime("proxy", "litellm"),
    "mastra": Runtime("javascript", "@mastra/core"),
    "meta_are": Runtime("proxy", "are-run"),
    "mini_swe_agent": Runtime("module", "mini-swe-agent"),
    "openai_agents": Runtime("module", "openai-agents"),
    "openai_agents_js": Runtime("javascript", "@openai/agents"),
    "openclaw": Runtime("proxy", "openclaw"),
    "opencode": Runtime("javascript", "contextrender-opencode"),
    "portkey": Runtime("proxy", "node"),
    "pydantic_ai": Runtime("module", "pydantic-ai-slim"),
    "smolagents": Runtime("module", "smolagents"),
}


def checks(name: str, proxy: str) -> Iterator[tuple[str, Callable[[], str]]]:
    """What to look at for an adapter, in order: each gives what it found, or raises ToMend."""
    runtime = RUNTIMES[name]
    if runtime.way == "module":
        yield "runtime", lambda: _package(runtime.needs)
        yield "adapter", lambda: _module(name)
    elif runtime.way == "javascript":
        yield "runtime", lambda: javascript.package(runtime.needs)
        yield "adapter", lambda: javascript.package(javascript.CLIENT)
    else:
        yield "runtime", lambda: _program(runtime.needs)
    yield "service", _service
    if runtime.way == "proxy":
        yield "proxy", lambda: _proxy(proxy)
        yield "a call", lambda: _verdict(lambda *given: _by_proxy(proxy, *given), "the proxy")
    else:
        tried = javascript.trial if runtime.way == "javascript" else _in_python
        yield "a call", lambda: _verdict(lambda *given: tried(name, *given), "the adapter")


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


def _verdict(send: Callable[[list[Json], Json], Sent], way: str) -> str:
    """A history of its own, larger than a small budget, sent that way; its session goes again."""
    session = f"check-{uuid.uuid4().hex[:12]}"
    settings = {"session": session, "budget": BUDGET, "deadline": 30}
    try:
        sent, failures = send(_history(), settings)
    finally:
        there = _deleted(session)
    if failures:
        raise ToMend(f"{way} sent the history whole: {', '.join(failures)}.")
    kept = sum(f"{mark}_X is next" in str(sent) for mark in MARKS)
    if not 0 < kept < len(MARKS):
        raise ToMend(f"{way} sent the history whole: are all parts of one version?")
    if not there:
        raise ToMend(f"{way} asks another service than this one.")
    return f"through {way} {kept} of {len(MARKS)} results were sent, within {BUDGET} tokens"


def _deleted(session: str) -> bool:
    """Removes what the call has left at the service; False when there was nothing."""
    try:
        with ContextRender(retries=0) as client:
            client.delete_session(session)
    except ContextRenderError:
        return False
    return True


def _in_python(name: str, history: list[Json], settings: Json) -> Sent:
    """Through the adapter's own hook, in the runtime's own types."""
    try:
        with ContextRender(retries=0) as client:
            sent = TRIALS[name](history, {**settings, "client": client})
            return sent, list(client.failures.counts())
    except ImportError as error:
        raise ToMend(f"not tried without the runtime ({error}).") from None
    except ContextRenderError as error:
        raise ToMend(f"it was not shortened: {error.message}") from None


def _by_proxy(address: str, history: list[Json], settings: Json) -> Sent:
    """What the proxy would send to a model, which is not asked."""
    body = {"model": "gpt-5.1", "messages": history, "budget": settings["budget"]}
    headers = {"x-contextrender-session": settings["session"], "x-contextrender-mode": "render"}
    try:
        reply = httpx.post(
            f"{address}/v1/compress",
            json=body,
            headers=headers,
            timeout=settings["deadline"],
            trust_env=False,
        )
        told = reply.json()
    except (httpx.HTTPError, ValueError):
        raise ToMend(f"no proxy of ContextRender's answers at {address}.") from None
    if reply.is_error:
        raise ToMend(f"the proxy at {address} refuses: {told['error']['message']}")
    if told.get("whole") == "holdout":
        raise ToMend("not tried: --holdout holds this session out. Check again.")
    return told["messages"], [told["fail_open"]] if "fail_open" in told else []


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
