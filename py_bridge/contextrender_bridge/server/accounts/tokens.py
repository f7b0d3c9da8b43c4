"""Tokens: signed, so that a stranger's is refused without a look at the store, and of a generation,
so that all of a user's can be revoked at once (server.accounts).
"""

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from pathlib import Path

import jwt
from contextrender_bridge.base.paths import secret_in
from contextrender_bridge.base.settings import current_settings

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
    """What a token with a good signature says. Times are seconds since 1970."""

    user: str
    generation: str
    made: int
    expires: int
    id: str = ""
    session: str = ""

    @property
    def is_due(self) -> bool:
        """Whether half its time is over: who renews it now never holds one that has ended."""
        return time.time() > (self.made + self.expires) / 2


class Tokens:
    """Makes and reads them with the secret of one data folder."""

    def __init__(self, data: Path) -> None:
        """Makes the secret at first use, unless `CONTEXTRENDER_JWT_SECRET` is set."""
        self._secret = _secret(data)

    def make(self, user: str, generation: str, seconds: int, audience: str | None = None) -> str:
        """A token of the user with that id; with an `audience`, valid there alone."""
        now = int(time.time())
        claims: dict[str, object] = {"sub": user, "gen": generation, "iat": now}
        claims["exp"] = now + seconds
        if audience is not None:
            claims.update(aud=audience, jti=secrets.token_urlsafe(12))
        return jwt.encode(claims, self._secret, algorithm="HS256")

    def link(self, user: str, generation: str, session: str, name: str, ends: int) -> str:
        """What opens one session for reading until then, while its link is there."""
        claims = {
            "sub": user,
            "gen": generation,
            "aud": LINK,
            "jti": name,
            "ses": session,
            "exp": ends,
        }
        return jwt.encode(claims, self._secret, algorithm="HS256")

    def code(self, token: str) -> str:
        """What signs in to the console, once and soon, as the bearer of a good token."""
        claims = self.read(token)
        return self.make(claims.user, claims.generation, CODE_SECONDS, CODE) if claims else ""

    def proof(self, token: str) -> str:
        """What only the maker of the token can tell of it."""
        return hmac.new(self._secret.encode(), token.encode(), hashlib.sha256).hexdigest()

    def read(self, token: str, audience: str | None = None) -> Claims | None:
        """What it says, if the signature is ours, it is for that audience and it has not ended."""
        try:
            found = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                audience=audience,
                leeway=LEEWAY_SECONDS,
                options={"require": ["sub", "exp"]},
            )
        except (jwt.PyJWTError, ValueError):
            return None
        expires = int(found["exp"])
        return Claims(
            str(found["sub"]),
            str(found.get("gen", "")),
            int(found.get("iat", expires)),
            expires,
            str(found.get("jti", "")),
            str(found.get("ses", "")),
        )


def _secret(data: Path) -> str:
    """`CONTEXTRENDER_JWT_SECRET`, or one made for this data folder."""
    if configured := current_settings().jwt_secret:
        return str(configured)
    return secret_in(data / "jwt_secret")
