"""Tokens: signed, so that a stranger's is refused without a look at the store, and of a generation,
so that all of a user's can be taken back at once (server.accounts).
"""

import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import jwt

from contextrender_bridge.paths import write_private
from contextrender_bridge.settings import current_settings

DAY = 24 * 3600
LOGIN_SECONDS = DAY
"""Of a token for a password: whoever has that gets another."""
LEEWAY_SECONDS = 60
"""How far the clocks of those who make and read tokens may be apart."""


@dataclass(frozen=True)
class Claims:
    """What a token with a good signature says. Times are seconds since 1970."""

    user: str
    generation: str
    made: int
    expires: int

    @property
    def is_due(self) -> bool:
        """Whether half its time is over: who renews it now never holds one that has ended."""
        return time.time() > (self.made + self.expires) / 2


class Tokens:
    """Makes and reads them with the secret of one data folder."""

    def __init__(self, data: Path) -> None:
        """Makes the secret at first use, unless `CONTEXTRENDER_JWT_SECRET` is set."""
        self._secret = _secret(data)

    def make(self, user: str, generation: str, seconds: int) -> str:
        """A token of the user with that id."""
        now = int(time.time())
        claims = {"sub": user, "gen": generation, "iat": now, "exp": now + seconds}
        return jwt.encode(claims, self._secret, algorithm="HS256")

    def read(self, token: str) -> Claims | None:
        """What it says, if the signature is ours and it has not ended."""
        try:
            found = jwt.decode(
                token,
                self._secret,
                algorithms=["HS256"],
                leeway=LEEWAY_SECONDS,
                options={"require": ["sub", "exp"]},
            )
        except (jwt.PyJWTError, ValueError):
            return None
        expires = int(found["exp"])
        return Claims(
            str(found["sub"]), str(found.get("gen", "")), int(found.get("iat", expires)), expires
        )


def _secret(data: Path) -> str:
    """`CONTEXTRENDER_JWT_SECRET`, or one made for this data folder."""
    if configured := current_settings().jwt_secret:
        return str(configured)
    path = data / "jwt_secret"
    if not path.exists():
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        write_private(fresh, secrets.token_urlsafe(48))
        with suppress(FileExistsError):  # another process has just made one
            path.hardlink_to(fresh)
        fresh.unlink()
    return path.read_text(encoding="utf-8")
