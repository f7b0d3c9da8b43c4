"""`POST /v1/compact`: the text that replaces an agent's history at a compaction.

The history may begin with such a text from an earlier compaction. The messages that the earlier
text replaced are recorded, so the service selects from the whole session again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from contextrender_bridge.base.compaction_mark import CompactedBranch, find_compaction
from contextrender_bridge.base.errors import ContextRenderError, InvalidRequest, Unauthorized
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client import AsyncContextRender
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.dialects.contents import plain_text
from contextrender_bridge.proxy.compress import has_blocks
from contextrender_bridge.proxy.request import Controls, generated_name, given_name, history_key_of

OPTIONS = ("model", "tokens", "window", "summary", "only_results", "client")
"""The request fields that are sent to the service unchanged."""
BRANCH_MISSING = frozenset({"history_diverged", "not_found"})
"""Error codes of the service if it does not have the branch that a compaction replaced."""


@dataclass(frozen=True, slots=True)
class ContinuedHistory:
    """A history that continues after a compaction.

    `replaced` identifies the recorded messages that the compaction's text replaced. `messages` are
    the messages after that text.
    """

    replaced: CompactedBranch
    messages: list[Json]


async def compact(
    client: AsyncContextRender, path: str, body: Mapping[str, Any], controls: Controls
) -> Json:
    """Return the service's reply to a compaction request.

    `body` has `messages` and optionally `session`; `path` is the session in the request's path, or
    empty. If neither names a session, find it by its messages. If the history begins with the text
    of an earlier compaction, the service already has the messages that this text replaced. So send
    only the messages after it, or all messages if the service does not have the earlier ones. Raise
    Unauthorized without a token, InvalidRequest if `messages` is invalid, and ContextRenderError if
    the service fails.
    """
    if not controls.has_user:
        raise Unauthorized("Send a token: `x-contextrender-token: TOKEN`.")
    # Read the messages, and find the session.
    messages = _read_messages(body.get("messages"))
    field = body.get("session")
    name = field if isinstance(field, str) else path
    session = await _session_key(client, name, messages, controls.token)
    fields = {option: body[option] for option in OPTIONS if option in body} | {"session": session}
    continued = find_continued(messages)
    if continued:
        # Instead of the messages that the earlier text replaced, send their number and digest.
        replaced = {"offset": continued.replaced.messages, "prefix": continued.replaced.digest}
        try:
            return await client.call(
                "compact", {**fields, **replaced, "messages": continued.messages}, controls.token
            )
        except ContextRenderError as error:
            if error.code not in BRANCH_MISSING:
                raise
    return await client.call("compact", {**fields, "messages": messages}, controls.token)


async def _session_key(
    client: AsyncContextRender, name: str, messages: list[Json], token: str | None
) -> str:
    """Return the session that a request names or, without a name, the one with its messages.

    `name` is the session in the request, or empty.
    """
    # The headers of this request name no session, so an empty dictionary stands in for them.
    if session := given_name(name, {}):
        return session
    # The service may store the messages under another name than the one made from them.
    generated, history_key = generated_name({}, messages), history_key_of(messages)
    return await client.find_session(generated, messages, token=token, history_key=history_key)


def find_continued(messages: Sequence[Json]) -> ContinuedHistory | None:
    """Return the history after its last compaction text, or None if it has no such text.

    Agents put the compaction's text into a message of the user or the system, perhaps with more
    text after it. Return that further text as a first message.
    """
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if message["role"] in ("assistant", "tool"):
            continue
        if compaction := find_compaction(plain_text(message.get("content"))):
            replaced, remainder = compaction
            first: list[Json] = [{"role": "user", "content": remainder}] if remainder else []
            return ContinuedHistory(replaced, [*first, *messages[position + 1 :]])
    return None


def _read_messages(items: Any) -> list[Json]:
    """Return the canonical form of chat messages or of messages of Anthropic's API.

    Raise InvalidRequest if `items` is no list of such messages.
    """
    if not isinstance(items, list):
        raise InvalidRequest("Field 'messages' must be a list.")
    dialect = DIALECTS["messages" if has_blocks(items) else "chat"]
    try:
        return dialect.read({"messages": items}).messages
    except (LookupError, TypeError, AttributeError, ValueError):
        sentence = "Field 'messages' must have chat messages or messages of Anthropic's API."
        raise InvalidRequest(sentence) from None
