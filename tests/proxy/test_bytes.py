"""The proxy sends unchanged items in their original bytes."""

import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from contextrender_bridge.base.wire import Json
from contextrender_bridge.client.fitting import dialect_of
from contextrender_bridge.dialects import DIALECTS
from contextrender_bridge.proxy.bodies import RecentBodies
from contextrender_bridge.proxy.shortening import MeasuredRequest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.bodies import bodies
from tests.dialects.test_dialects import plan_of
from tests.proxy.conftest import Setup
from tests.proxy.test_too_long import PATHS, body_of
from tests.support.strategies import BUDGETS, modest

ODD = ['"\\ud83d"', '"\\u00e9 é 漢"', "1e0", "1.50", '"\\/"', '{"a": 1, "a": 2}', "[ ]"]
"""JSON values that parsing and writing would change."""
HEAD = '{"temperature" : 1e0, "temperature": 1.50 ,"system2":"\\ud83d é \\u00e9",'


@st.composite
def texts(draw: st.DrawFn, dialect: str) -> tuple[bytes, list[str]]:
    """Draw a request in unusual JSON formatting, and the texts of its items."""
    body = draw(bodies(dialect))
    key = DIALECTS[dialect].key
    items = []
    for item in body[key]:
        text = json.dumps(
            item, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))
        )
        if isinstance(item, dict) and draw(st.booleans()):
            text = text[:-1].rstrip() + f', "odd": {draw(st.sampled_from(ODD))}}}'
        items.append(text)
    other_fields = {name: value for name, value in body.items() if name != key}
    space = draw(st.sampled_from(["", " ", "\n  "]))
    item_text = f"{space},{space}".join(items)
    tail = json.dumps(other_fields)[1:-1]
    raw = f'{HEAD}"{key}"{space}:[{item_text}]{space},{tail}}}{space}'
    return raw.encode("utf-8", "surrogatepass"), items


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@given(data=st.data(), budget=BUDGETS)
@modest
def test_kept_items_keep_their_bytes(dialect: str, data: st.DataObject, budget: int) -> None:
    raw, items = data.draw(texts(dialect))
    key = DIALECTS[dialect].key
    try:
        raw.decode()
    except UnicodeDecodeError:
        return
    recent_bodies = RecentBodies()
    # Read it as the first request, then after an earlier one.
    for read in (recent_bodies.read(raw, key), recent_bodies.read(raw, key)):
        transcript = dialect_of(dialect, read.fields).read(read.fields)
        if not transcript.messages:
            return
        new_body = transcript.apply(plan_of(transcript.messages, budget))
        new_text = read.splice(raw, new_body).decode()
        places = {id(item): n for n, item in enumerate(read.items)}
        same = [items[places[id(item)]] for item in new_body[key] if id(item) in places]
        at = 0
        for text in same:
            at = new_text.index(text, at) + len(text)
        begin = raw.decode().index("[", len(HEAD)) + 1
        assert new_text.startswith(raw.decode()[:begin])
        assert new_text.endswith(raw.decode()[read.list_end :])
        assert json.loads(new_text)[key] == json.loads(json.dumps(new_body[key]))


class OddWriter:
    """Writes JSON in unusual formatting. Each object gets a unique mark and an odd value."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.texts: dict[str, str] = {}
        """The text of each object, by mark."""
        self.added: dict[str, str] = {}
        """The text that was added to each object, by mark."""

    def write(self, value: Any) -> str:
        space = self.draw(st.sampled_from(["", "", " ", "\n\t"]))
        if isinstance(value, list):
            return f"[{space}{f'{space},'.join(map(self.write, value))}{space}]"
        if not isinstance(value, dict):
            return json.dumps(value, ensure_ascii=self.draw(st.booleans()))
        mark, odd = f"mark {len(self.added)}", self.draw(st.sampled_from(ODD))
        self.added[mark] = f'"odd": {odd},"odd" :{odd}{space}, "mark":"{mark}"'
        members = [f"{json.dumps(key)}{space}:{self.write(value[key])}" for key in value]
        self.texts[mark] = f"{{{f'{space}, '.join([*members, self.added[mark]])}}}"
        return self.texts[mark]


def marked_objects(value: Any) -> dict[str, Json]:
    """Return all marked objects in a JSON value, by mark."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    objects = {
        mark: inner_object
        for child in inner
        for mark, inner_object in marked_objects(child).items()
    }
    if isinstance(value, dict) and "mark" in value:
        objects[value["mark"]] = value
    return objects


@pytest.mark.parametrize("dialect", ["chat", "messages", "responses"])
@given(data=st.data(), budget=BUDGETS, is_cut=st.booleans())
@modest
def test_kept_parts_of_a_changed_item_keep_their_bytes(
    dialect: str, data: st.DataObject, budget: int, is_cut: bool
) -> None:
    body, key, writer = data.draw(bodies(dialect)), DIALECTS[dialect].key, OddWriter(data.draw)
    texts = ",".join(map(writer.write, body.pop(key)))
    try:
        raw = f'{json.dumps(body)[:-1]}, "{key}": [{texts}]}}'.encode()
    except UnicodeEncodeError:
        return
    read = RecentBodies().read(raw, key)
    transcript = dialect_of(dialect, read.fields).read(read.fields)
    if not transcript.messages:
        return
    if is_cut:
        new_body = MeasuredRequest(read.fields, transcript).shorten(budget)
    else:
        plan = plan_of(transcript.messages, budget)
        plan.breakpoints = tuple(data.draw(st.lists(st.sampled_from(range(9)), max_size=2)))
        new_body = transcript.apply(plan)
    new_text = read.splice(raw, new_body).decode()
    assert json.loads(new_text) == json.loads(json.dumps(new_body))
    originals = marked_objects(read.items)
    for mark, new_object in marked_objects(json.loads(new_text)[key]).items():
        assert writer.added[mark] in new_text
        if new_object == originals[mark]:
            assert writer.texts[mark] in new_text


@pytest.mark.parametrize("dialect", PATHS)
def test_rendered_request_keeps_bytes_outside_messages(setup: Setup, dialect: str) -> None:
    body = body_of(dialect, 8)
    key = DIALECTS[dialect].key
    body[key][0]["content"] = "Finde den Fehler: é 漢 \ud83d"
    tools: list[Json] = [{"name": "look", "description": "schön", "input_schema": {}}]
    raw = json.dumps({**body, "tools": tools}, ensure_ascii=False, separators=(" , ", " : "))
    raw = raw.replace("\ud83d", "\\ud83d")[:-1] + ', "top_p": 1e0, "top_p": 0.50 }'
    url = f"/s/{uuid.uuid4().hex}{PATHS[dialect]}"
    headers = {"accept-encoding": "gzip, br;q=0.5", "x-contextrender-budget": "600"}
    response = setup.http.post(url, content=raw.encode(), headers=headers)
    assert int(response.headers["x-contextrender-omitted"]) > 0
    request = setup.model.requests[-1]
    text = request.body.decode()
    assert len(text) < len(raw)
    first = raw.index("[", raw.index(f'"{key}"')) + 1
    assert text.startswith(raw[: raw.index("}", first)])
    assert text.endswith(raw[raw.index(', "tools"') if ', "tools"' in raw else -60 :][-60:])
    assert request.header("accept-encoding") == "gzip, br;q=0.5"


NUMBER = "1.25"
ODD_NUMBERS = ("1e400", "-1e999", "NaN", "9" * 5000, "[" * 10**5 + "]" * 10**5)
TEXT = json.dumps({**body_of("chat", 8), "top_p": 1.25})
ODD_BODIES = {
    "BOM": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16": TEXT.encode("utf-16"),
    "surrogate": TEXT.replace("top_p", "\ud83d").encode("utf-8", "surrogatepass"),
    "two objects": TEXT.encode() + b"{}",
    **{value[:6]: TEXT.replace(NUMBER, value).encode() for value in ODD_NUMBERS},
}


@pytest.mark.parametrize("kind", ODD_BODIES)
def test_body_that_cannot_be_written_again_is_forwarded_as_it_is(setup: Setup, kind: str) -> None:
    """The provider answers with an error. No part of the body is omitted."""
    raw = ODD_BODIES[kind]
    headers = {"x-contextrender-budget": "600", "content-type": "application/json"}
    setup.http.post(f"/s/{uuid.uuid4().hex}{PATHS['chat']}", content=raw, headers=headers)
    assert setup.model.requests[-1].body == raw


@pytest.mark.parametrize("value", ["plain", "é 漢".encode(), b"a  b;q=0.1,\tc", b'"quoted\\"'])
def test_header_value_keeps_its_bytes(setup: Setup, value: str | bytes) -> None:
    """This excludes values that are no UTF-8, because the library cannot write them."""
    raw = value.encode() if isinstance(value, str) else value
    headers = [(b"X-Trace-Note", raw), (b"x-other", b"1"), (b"x-other", b"2")]
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    setup.http.post(f"/s/{uuid.uuid4().hex}{PATHS['chat']}", json=body, headers=headers)
    received_headers = setup.model.requests[-1].headers
    assert [
        header for header in received_headers if header[0] in (b"x-trace-note", b"x-other")
    ] == [
        (b"x-trace-note", raw),
        *headers[1:],
    ]


def test_body_with_duplicate_messages_key_uses_last() -> None:
    raw = b'{"messages": [{"role": "user", "content": "a"}], "messages": 5}'
    read = RecentBodies().read(raw, "messages")
    new_body: dict[str, Any] = {"messages": [{"role": "user", "content": "b"}]}
    assert json.loads(read.splice(raw, new_body)) == new_body


def test_new_text_with_lone_surrogate_is_valid_json() -> None:
    raw = b'{"messages": [{"role": "user", "content": "\\ud83d"}]}'
    read = RecentBodies().read(raw, "messages")
    (item,) = read.items
    new_body = {"messages": [{**item, "content": f"\xe9 {item['content']}\n\x00"}]}
    new_raw = read.splice(raw, new_body)
    assert json.loads(new_raw) == new_body
    assert "\xe9 \\ud83d\\n" in new_raw.decode()
