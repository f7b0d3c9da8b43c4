"""Whether a request is let in: which host it asks for, how large it is and how long it takes, whose
it is, and what that user may still take.
"""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from contextrender_bridge.base.errors import InvalidRequest, Unauthorized
from contextrender_bridge.base.settings import Settings
from contextrender_bridge.request_guards import OwnHosts
from contextrender_bridge.server.accounts.callers import Caller
from contextrender_bridge.server.accounts.sign_in import SMALL, Question, SignIn
from contextrender_bridge.server.accounts.users import LOCAL_USER, Accounts
from contextrender_bridge.server.http.bodies import bearer_of, error_response
from contextrender_bridge.server.limits.counting import Quotas
from contextrender_bridge.server.watching.logs import ASKED
from contextrender_bridge.store.writes import StoreUnavailable

THREADS: Final = 4
SILENCE_SECONDS: Final = 30.0
"""How long a body may pause."""
TOGETHER: Final = 4
"""All bodies that are held at once have room for so many of the largest, a user's for half."""


class Admission:
    """The one gate of a service."""

    def __init__(
        self,
        accounts: Accounts,
        quotas: Quotas,
        settings: Settings,
        begin: Callable[[], None],
    ) -> None:
        """Each thread that asks the database whose a token is calls `begin` first."""
        self._accounts, self._quotas = accounts, quotas
        self._bodies = Bodies(settings, SMALL)
        self._threads = ThreadPoolExecutor(THREADS, "token", initializer=begin)
        self.sign_in = SignIn(accounts, self.known)

    def close(self) -> None:
        """Answers the questions that were asked."""
        self._threads.shutdown(wait=True)
        self.sign_in.close()

    def around(self, app: ASGIApp) -> ASGIApp:
        """The app, reached by requests for its own hosts, with bodies within their limits."""
        hosts = OwnHosts(app)

        async def admitted(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await hosts(scope, receive, send)
                return
            if elsewhere := hosts.refusal(scope):
                status, code, sentence = elsewhere
                refused: InvalidRequest | None = InvalidRequest(sentence, code=code, status=status)
            else:
                refused = self._bodies.refusal(scope)
            if refused is not None:
                await error_response(refused)(scope, receive, send)
                return
            with self._bodies.reading(scope, receive) as body:
                await app(scope, body, send)

        return admitted

    def question(self, request: Request) -> Question:
        """Whose token, read-only link or cookie a walker's request brings."""
        token, accounts = bearer_of(request), self._accounts
        if token or "cookie" not in request.headers:
            return lambda: accounts.caller(token) or accounts.visitor(token)
        return self.sign_in.question(request)

    def admit(self, question: Question) -> Caller:
        """Counted as a call, in this thread. Raises Unauthorized, or InvalidRequest (429)."""
        caller = _known(question)
        if self._quotas.on:
            self._quotas.check_call(caller)
        return caller

    async def admitted(self, question: Question) -> Caller:
        """The same, from the loop."""
        return await self._ask(lambda: self.admit(question))

    async def of_token(self, token: str) -> Caller:
        """Whose token it is, counted as a call. Raises Unauthorized, or InvalidRequest (429)."""
        return await self.admitted(lambda: self._accounts.caller(token))

    async def known(self, question: Question) -> Caller:
        """Not counted. Raises Unauthorized."""
        return await self._ask(lambda: _known(question))

    async def is_local_users(self, request: Request) -> bool:
        """Whether it brings the local user's token."""
        token = bearer_of(request)
        try:
            caller = await self._ask(lambda: self._accounts.caller(token))
        except StoreUnavailable:
            return False
        return caller is not None and caller.name == LOCAL_USER

    async def _ask[T](self, question: Callable[[], T]) -> T:
        here = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self._threads, here.run, question)


class Bodies:
    """Those of the requests that one process answers: the size of each and of all together, a
    user's too, and their time. `small` limits those of some paths.
    """

    def __init__(
        self, settings: Settings, small: Mapping[str, int], silence: float = SILENCE_SECONDS
    ) -> None:
        """None is held. A body's memory is taken until its request is answered."""
        self._most = settings.max_body_mb * 2**20
        self._small = small
        self._silence = silence
        self._seconds = settings.body_timeout
        self._held: Counter[str] = Counter()

    def refusal(self, scope: Scope) -> InvalidRequest | None:
        """Why a request is refused unread: its body is announced to be too large."""
        most = self._most_of(scope)
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        return _too_large(most) if announced.isdigit() and int(announced) > most else None

    @contextmanager
    def reading(self, scope: Scope, receive: Receive) -> Iterator[Receive]:
        """A request's `receive`, which raises InvalidRequest where a limit is passed."""
        most, deadline = self._most_of(scope), asyncio.get_running_loop().time() + self._seconds
        stranger = (scope.get("client") or ("",))[0]
        taken: Counter[str] = Counter()
        whole = False

        async def counted() -> Message:
            nonlocal whole
            if whole:
                return await receive()
            message = await self._in_time(receive, deadline)
            whole = not message.get("more_body", False)
            if size := len(message.get("body", b"")):
                asked = ASKED.get()
                user = (asked and asked.user) or f"address {stranger}"
                taken[user] += size
                self._held[user] += size
                if taken.total() > most:
                    raise _too_large(most)
                self._check_room(user)
            return message

        try:
            yield counted
        finally:
            self._held -= taken

    def _most_of(self, scope: Scope) -> int:
        return self._small.get(scope["path"], self._most)

    async def _in_time(self, receive: Receive, deadline: float) -> Message:
        left = deadline - asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(min(self._silence, max(left, 0))):
                return await receive()
        except TimeoutError:
            sentence = "The body did not arrive in time."
            raise InvalidRequest(sentence, code="request_timeout", status=408) from None

    def _check_room(self, user: str) -> None:
        room = TOGETHER * self._most
        if self._held[user] > room / 2 or self._held.total() > room:
            sentence = "Too much is being sent at once. Try again in a moment."
            raise InvalidRequest(
                sentence, code="too_many_bytes_in_flight", status=503, retry_after=1
            )


def _too_large(most: int) -> InvalidRequest:
    size = f"{most / 2**20:g} MB" if most >= 2**20 else f"{most} bytes"
    return InvalidRequest(f"A body may have up to {size}.", code="body_too_large", status=413)


def _known(question: Question) -> Caller:
    """Whose the request is, for the log, too. Raises Unauthorized."""
    if (caller := question()) is None:
        raise Unauthorized("Send a valid token: `Authorization: Bearer TOKEN`.")
    if (asked := ASKED.get()) is not None:
        asked.user = caller.name
    return caller
