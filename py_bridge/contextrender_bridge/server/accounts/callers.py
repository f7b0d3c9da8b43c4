"""Tokens and their users.

A token is signed, so a forged one is refused without reading the store. It contains the generation
of its user's tokens: a new generation revokes all tokens of the user. Every request reads the
user's row, so a change by another process takes effect at once.
"""

import hashlib
import hmac
import json
import secrets
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import jwt
from contextrender_bridge.base.paths import secret_in
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.server.limits.counting import Counts
from contextrender_bridge.server.watching.logs import AuditLog
from contextrender_bridge.sessions.ids import link_id, session_id_of
from contextrender_bridge.store.base import Store

GENERATION = "tokens"
"""The profile field with the generation of the user's valid tokens; a new user lacks it."""
DAY = 24 * 3600
LOGIN_SECONDS = DAY
"""The lifetime of a token from a login and of a console cookie, in seconds."""
CODE_SECONDS = 900
"""The lifetime of the code in a link to the console, in seconds. A code works only once."""
CODE, CONSOLE, LINK = "console-code", "console", "session-link"
"""The audiences (RFC 7519, 4.1.3) of tokens that are not valid for API clients: codes in links to
the console, cookies of the console, and read-only links to one session."""
LEEWAY_SECONDS = 60
"""The accepted difference between the clocks of servers that create and check tokens."""


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
        """True if the token should be renewed, because half of its lifetime is over.

        It is also True if the lifetime has not begun, because the clock was set back.
        """
        now = time.time()
        has_begun = now >= self.made_at - LEEWAY_SECONDS
        return not has_begun or now > (self.made_at + self.expires) / 2


class Tokens:
    """Tokens that are signed with the secret of one data folder."""

    def __init__(self, data: Path) -> None:
        """Use the secret in `CONTEXTRENDER_JWT_SECRET`, or by default in the folder.

        Create the folder's secret if it is missing.
        """
        configured = current_settings().jwt_secret
        self._secret = str(configured or secret_in(data / "jwt_secret"))

    def make(self, user: str, generation: str, seconds: int, audience: str | None = None) -> str:
        """Return a user's token, valid for `seconds`. Without `audience`, it is for API clients."""
        now = int(time.time())
        claims = {"sub": user, "gen": generation, "iat": now, "exp": now + seconds}
        if audience is not None:
            claims |= {"aud": audience, "jti": secrets.token_urlsafe(12)}
        return jwt.encode(claims, self._secret, algorithm="HS256")

    def link(self, user: str, generation: str, session: str, name: str, ends: int) -> str:
        """Return the secret of the read-only link `name` to a session.

        It is a token that is valid until `ends`, in seconds since 1970.
        """
        claims = {"sub": user, "gen": generation, "aud": LINK, "jti": name, "ses": session}
        return jwt.encode({**claims, "exp": ends}, self._secret, algorithm="HS256")

    def proof(self, token: str) -> str:
        """Return the proof of a token, which only a process with the secret can compute."""
        return hmac.new(self._secret.encode(), token.encode(), hashlib.sha256).hexdigest()

    def read(self, token: str, audience: str | None = None) -> Claims | None:
        """Return the claims of a token if it is valid for this audience, otherwise None."""
        try:
            claims = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                audience=audience,
                leeway=LEEWAY_SECONDS,
                # Do not check `iat`, when it was made: the clock may have been set back since.
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
    """The user of a request: the id, the id of the root of the user's graph, and the name."""

    user: str
    root: str
    name: str
    generation: str = field(repr=False)
    active: bool = True
    only_session: str | None = None
    """The key of the only session that a read-only link opens; None without a link."""


class Callers:
    """The users of tokens, codes, cookies and read-only links."""

    def __init__(self, store: Store, data: Path) -> None:
        """Use the users in the store, and the secret, the counts and the audit log in `data`."""
        self._store = store
        self.tokens = Tokens(data)
        self.counts = Counts(data)
        self.audit = AuditLog(data)

    def caller(self, token: str) -> Caller | None:
        """Return the user of a token, or None if the token is invalid."""
        return self._bearer(self.tokens.read(token))

    def visitor(self, token: str) -> Caller | None:
        """Return the caller that the secret of a read-only link stands for; None if invalid.

        The caller may read only the link's session. A link is valid until it expires, and while its
        node is stored, which is deleted when the link is revoked or its session is deleted.
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
        return replace(user, user=f"{user.user} link", name=name, only_session=claims.session)

    def take_code(self, code: str) -> Caller | None:
        """Return the user of a code; None if it is invalid or was used before."""
        claims = self.tokens.read(code, CODE)
        if claims is None or not self._is_first_use(claims):
            return None
        if user := self._bearer(claims):
            self.audit.record("console_opened", user.name)
        return user

    def console_sign_in(self, user: Caller) -> tuple[str, str]:
        """Return a cookie for the console, and the proof that must be sent with it."""
        cookie = self.tokens.make(user.user, user.generation, LOGIN_SECONDS, CONSOLE)
        return cookie, self.tokens.proof(cookie)

    def console_caller(self, cookie: str, proof: str) -> Caller | None:
        """Return the user of a console cookie; None if the cookie or its proof is invalid."""
        if not hmac.compare_digest(self.tokens.proof(cookie).encode(), proof.encode()):
            return None
        return self._bearer(self.tokens.read(cookie, CONSOLE))

    def _is_first_use(self, code: Claims) -> bool:
        """Record the use of a code, and return whether it is the first use.

        Codes that have expired are forgotten, because they are invalid anyway.
        """
        with self.counts.transaction() as file:
            file.execute("DELETE FROM codes WHERE expires < ?", (time.time() - LEEWAY_SECONDS,))
            row = (code.id, code.expires)
            return file.execute("INSERT OR IGNORE INTO codes VALUES (?, ?)", row).rowcount == 1

    def _bearer(self, claims: Claims | None) -> Caller | None:
        """Return the user in a token's claims; None for an inactive user or a revoked token."""
        user = self._user(claims.user) if claims else None
        if claims is None or user is None or not user.active:
            return None
        return user if user.generation == claims.generation else None

    def _user(self, id: str) -> Caller | None:
        """Return the user with this id, from Jac's table of users; None if there is none."""
        rows = self._store.read(
            "SELECT root_id, status, identities, profile FROM identity_users WHERE user_id = ?",
            (id,),
        )
        if not rows or not rows[0][0]:
            return None
        root, status, identities, profile = rows[0]
        # A user can have several identities. One of them is the name.
        name = next(
            identity["value_raw"]
            for identity in _json(identities)
            if identity["type"] == "username"
        )
        generation = (_json(profile) or {}).get(GENERATION, "")
        return Caller(id, str(root), name, generation, status != "disabled")


def _json(value: Any) -> Any:
    """Return the value of a JSON column, of which SQLite returns the text."""
    return json.loads(value) if isinstance(value, str) else value
