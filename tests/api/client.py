"""The endpoints as one user calls them over HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx
from contextrender_bridge.base.wire import Json


class Api:
    """`api(walker, **fields)` is the report, `api.refused(...)` the error of a refusal."""

    def __init__(self, http: httpx.Client, token: str) -> None:
        self._http = http
        self.token = token

    def post(self, walker: str, body: bytes | str | None = None, **fields: Any) -> httpx.Response:
        """The whole reply to these fields, or to a body as it is."""
        headers = {"authorization": f"Bearer {self.token}"}
        if body is not None:
            return self._http.post(f"/walker/{walker}", content=body, headers=headers)
        return self._http.post(f"/walker/{walker}", json=fields, headers=headers)

    def __call__(self, walker: str, **fields: Any) -> Any:
        """The one report of a call that succeeds, `usage` apart.

        What a call itself spends depends on what earlier ones left to do.
        """
        return {k: v for k, v in self.report(walker, **fields).items() if k != "usage"}

    def report(self, walker: str, **fields: Any) -> Json:
        """The one report of a call that succeeds."""
        reply = self.post(walker, **fields)
        assert reply.status_code == 200, reply.text
        assert set(reply.json()) == {"reports"}
        (report,) = reply.json()["reports"]
        return dict(report)

    def pages(self, walker: str, at: str = "start", **fields: Any) -> Iterator[Json]:
        """Every page there is; the field `at` says where the next one begins."""
        while True:
            page: Json = self(walker, **fields)
            yield page
            if page["next"] is None:
                return
            fields[at] = page["next"]

    def rows(self, walker: str, name: str, **fields: Any) -> list[Any]:
        """The rows of that name on every page: a busy server ends a page early."""
        return [row for page in self.pages(walker, **fields) for row in page[name]]

    def complete(self, walker: str, **fields: Any) -> Json:
        """The report once it is complete: a busy server needs several requests."""
        while not (view := self(walker, **fields))["complete"]:
            pass
        return dict(view)

    def refused(self, walker: str, status: int, code: str, **fields: Any) -> Json:
        """The error of a call that is refused with that status and code."""
        return error_of(self.post(walker, **fields), status, code)


def error_of(reply: httpx.Response, status: int, code: str) -> Json:
    """The error in a reply, after checking that it is one and says something."""
    assert reply.status_code == status, reply.text
    assert set(reply.json()) == {"type", "error"}
    error: Json = reply.json()["error"]
    assert error["code"] == code, error
    assert len(error["message"].split()) >= 3, error
    return error


class Conversation:
    """One session as an adapter keeps it: sends what is new, with the digest returned last."""

    def __init__(self, api: Api, session: str) -> None:
        self.api = api
        self.session = session
        self.offset = 0
        self.prefix = ""

    def send(self, walker: str, messages: list[Json], **fields: Any) -> Json:
        """The report for a transcript whose beginning was sent before."""
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
