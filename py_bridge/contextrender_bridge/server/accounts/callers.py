"""Tokens and their users.

A token is signed, so a stranger's is refused without reading the store. It has a generation, so all
tokens of a user can be revoked at once. Every request reads the user's row, so a change by another
process counts at once.
"""

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import jwt
from contextrender_bridge.base.paths import secret_in
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.runtime.request import Signer
from contextrender_bridge.server.limits.counting import Counts
from contextrender_bridge.server.watching.logs import Audit
from contextrender_bridge.sessions.ids import link_id, session_id_of
from contextrender_bridge.store.base import Store

GENERATION = "tokens"
"""Where a user's profile has the generation of the tokens that are good; unnamed at first."""
DAY = 24 * 3600
LOGIN_SECONDS = DAY
"""Of a token for a password."""
CODE_SECONDS = 900
"""Of the code in a link to the console, which works once."""
CODE, CONSOLE, LINK = "console-code", "console", "session-link"
"""Whom a token that is no bearer's is for (RFC 7519, 4.1.3): of links to the console, of
cookies, of read-only links to one session."""
LEEWAY_SECONDS = 60
"""How far the clocks of those who make and read tokens may be apart."""


@dataclass(frozen=True)
class Claims:
    """The claims of a token with a valid signature. Times are seconds since 1970."""

    user: str
    generation: str
    made_at: int
    expires: int
    id: str = ""
    session: str = ""

    @property
    def is_due(self) -> bool:
        """True once half of the token's time is over, so that a client renews it before it ends.

        True also before its time begins: the clock was set back.
        """
        return not self.made_at - LEEWAY_SECONDS <= time.time() <= (self.made_at + self.expires) / 2


class Tokens:
    """Tokens that are signed with the secret of one data folder."""

    def __init__(self, data: Path) -> None:
        """Read the secret, or make it at first use, unless `CONTEXTRENDER_JWT_SECRET` is set."""
        configured = current_settings().jwt_secret
        self._secret = str(configured or secret_in(data / "jwt_secret"))

    def make(self, user: str, generation: str, seconds: int, audience: str | None = None) -> str:
        """Return a token of the user with that id; with an `audience`, it is valid there alone."""
        now = int(time.time())
        claims = {"sub": user, "gen": generation, "iat": now, "exp": now + seconds}
        if audience is not None:
            claims |= {"aud": audience, "jti": secrets.token_urlsafe(12)}
        return jwt.encode(claims, self._secret, algorithm="HS256")

    def link(self, user: str, generation: str, session: str, name: str, ends: int) -> str:
        """Return a link that opens one session for reading until it ends or its node is deleted."""
        claims = {"sub": user, "gen": generation, "aud": LINK, "jti": name, "ses": session}
        return jwt.encode({**claims, "exp": ends}, self._secret, algorithm="HS256")

    def code(self, token: str) -> str:
        """Return a code that signs the bearer of a valid token in to the console, once and soon."""
        claims = self.read(token)
        return self.make(claims.user, claims.generation, CODE_SECONDS, CODE) if claims else ""

    def proof(self, token: str) -> str:
        """Return a proof that only the maker of the token can compute."""
        return hmac.new(self._secret.encode(), token.encode(), hashlib.sha256).hexdigest()

    def read(self, token: str, audience: str | None = None) -> Claims | None:
        """Return a token's claims if its signature is ours, its audience fits and it is valid."""
        try:
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                audience=audience,
                leeway=LEEWAY_SECONDS,
                # A token is good if it was made before the clock was set back: its end limits it.
                options={"require": ["sub", "exp"], "verify_iat": False},
            )
        except (jwt.PyJWTError, ValueError):
            return None
        expires = int(claims["exp"])
        return Claims(
            str(claims["sub"]),
            str(claims.get("gen", "")),
            int(claims.get("iat", expires)),
            expires,
            str(claims.get("jti", "")),
            str(claims.get("ses", "")),
        )


@dataclass(frozen=True)
class Caller:
    """A user who may call. `user` and `root` are ids."""

    user: str
    root: str
    name: str
    generation: str = field(repr=False)
    active: bool = True
    only: str | None = None
    """The one session that a read-only link opens; None for who is the user."""


class Callers:
    """The users that tokens, codes, cookies and read-only links belong to."""

    def __init__(self, store: Store, data: Path) -> None:
        """Read users from the store, the secret of their tokens and the counts from `data`."""
        self._store = store
        self.tokens = Tokens(data)
        self.counts = Counts(data)
        self.audit = Audit(data)

    def caller(self, token: str) -> Caller | None:
        """Return the user of a token, if the token is valid."""
        return self._bearer(self.tokens.read(token))

    def signer(self, user: Caller) -> Signer:
        """Return what makes the user's read-only links."""
        return Signer(user.generation, partial(self.tokens.link, user.user, user.generation))

    def visitor(self, token: str) -> Caller | None:
        """Return the user and session of a valid read-only link, which opens nothing else.

        A link is valid while its node is stored. Without the node, because the link was revoked or
        its session deleted, it opens nothing.
        """
        claims = self.tokens.read(token, LINK)
        user = self._bearer(claims)
        if claims is None or user is None:
            return None
        owner = UUID(user.root)
        link = link_id(session_id_of(owner, claims.session), claims.id)
        if time.time() >= claims.expires or not any(self._store.nodes(owner, [link])):
            return None
        name = f"{user.name} (link)"
        return replace(user, user=f"{user.user} link", name=name, only=claims.session)

    def take_code(self, code: str) -> Caller | None:
        """Return whose code it is, at its first use."""
        claims = self.tokens.read(code, CODE)
        if claims is None or not self._is_first_use(claims):
            return None
        if user := self._bearer(claims):
            self.audit.note("console_opened", user.name)
        return user

    def console_sign_in(self, user: Caller) -> tuple[str, str]:
        """Return a cookie for the console, and the proof without which it is refused."""
        cookie = self.tokens.make(user.user, user.generation, LOGIN_SECONDS, CONSOLE)
        return cookie, self.tokens.proof(cookie)

    def console_caller(self, cookie: str, proof: str) -> Caller | None:
        """Return whose cookie it is, if its proof came with it."""
        if not hmac.compare_digest(self.tokens.proof(cookie).encode(), proof.encode()):
            return None
        return self._bearer(self.tokens.read(cookie, CONSOLE))

    def _is_first_use(self, code: Claims) -> bool:
        with self.counts.transaction() as file:
            file.execute("DELETE FROM codes WHERE expires < ?", (time.time() - LEEWAY_SECONDS,))
            row = (code.id, code.expires)
            return file.execute("INSERT OR IGNORE INTO codes VALUES (?, ?)", row).rowcount == 1

    def _bearer(self, claims: Claims | None) -> Caller | None:
        user = self._user(claims.user) if claims else None
        good = claims and user and user.active and user.generation == claims.generation
        return user if good else None

    def _user(self, id: str) -> Caller | None:
        rows = self._store.read(
            "SELECT root_id, status, identities, profile FROM identity_users WHERE user_id = ?",
            (id,),
        )
        if not rows or not rows[0][0]:
            return None
        root, status, identities, profile = rows[0]
        name = next(
            identity["value_raw"]
            for identity in _json(identities)
            if identity["type"] == "username"
        )
        generation = (_json(profile) or {}).get(GENERATION, "")
        return Caller(id, str(root), name, generation, status != "disabled")


def _json(value: Any) -> Any:
    """Return the value of a JSON column: one database returns its text, another the value."""
    return json.loads(value) if isinstance(value, str) else value
