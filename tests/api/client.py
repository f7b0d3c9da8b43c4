"""The endpoints, called by one user over HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx
from contextrender_bridge.base.wire import Json


class Api:
    """The endpoints for one user: `api(walker, **fields)` returns the report, `api.refused(...)`
    the error."""

    def __init__(self, http: httpx.Client, token: str) -> None:
        self._http = http
        self.token = token

    def post(self, walker: str, body: bytes | str | None = None, **fields: Any) -> httpx.Response:
        """Return the HTTP reply to these fields, or to a raw body."""
        headers = {"authorization": f"Bearer {self.token}"}
        if body is not None:
            return self._http.post(f"/walker/{walker}", content=body, headers=headers)
        return self._http.post(f"/walker/{walker}", json=fields, headers=headers)

    def __call__(self, walker: str, **fields: Any) -> Any:
        """Return the report of a successful call, without `usage`.

        The usage of a call depends on what earlier calls have cached.
        """
        return {
            name: value for name, value in self.report(walker, **fields).items() if name != "usage"
        }

    def report(self, walker: str, **fields: Any) -> Json:
        """Return the report of a successful call."""
        reply = self.post(walker, **fields)
        assert reply.status_code == 200, reply.text
        assert set(reply.json()) == {"reports"}
        (report,) = reply.json()["reports"]
        return dict(report)

    def pages(self, walker: str, cursor_field: str = "start", **fields: Any) -> Iterator[Json]:
        """Yield every page. The field named `cursor_field` requests the page at a cursor."""
        while True:
            page: Json = self(walker, **fields)
            yield page
            if page["next"] is None:
                return
            fields[cursor_field] = page["next"]

    def rows(self, walker: str, name: str, **fields: Any) -> list[Any]:
        """Return the rows of all pages. A busy server may end a page early."""
        return [row for page in self.pages(walker, **fields) for row in page[name]]

    def complete(self, walker: str, **fields: Any) -> Json:
        """Return the report once it is complete. A busy server may need several requests."""
        while not (view := self(walker, **fields))["complete"]:
            pass
        return dict(view)

    def refused(self, walker: str, status: int, code: str, **fields: Any) -> Json:
        """Return the error of a call that is refused with this status and code."""
        return error_of(self.post(walker, **fields), status, code)


def error_of(reply: httpx.Response, status: int, code: str) -> Json:
    """Return the error in a reply. Assert its status, code and a message of three words or more."""
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"type", "error"}
    error: Json = reply.json()["error"]
    assert error["code"] == code, error
    assert len(error["message"].split()) >= 3, error
    return error


class Conversation:
    """A session of a client that sends only new messages, with the last returned digest."""

    def __init__(self, api: Api, session: str) -> None:
        self.api = api
        self.session = session
        self.offset = 0
        self.prefix = ""

    def send(self, walker: str, messages: list[Json], **fields: Any) -> Json:
        """Send the new messages of a history and return the report."""
        report: Json = self.api(
            walker,
            session=self.session,
            messages=messages[self.offset :],
            offset=self.offset,
            prefix=self.prefix,
            **fields,
        )
        self.offset, self.prefix = report["offset"], report["digest"]
        return report
