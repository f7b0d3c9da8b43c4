"""Who may call: users in jac-scale's user tables, and the user of a token.

Every look-up reads the user's row: what a command in another process changed counts at once.
Long because one class holds all that tokens, codes, cookies and links open.
"""

import hmac
import json
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import bcrypt
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.server.accounts.audit import Audit
from contextrender_bridge.server.accounts.counting import Counts
from contextrender_bridge.server.accounts.tokens import (
    CODE,
    CONSOLE,
    DAY,
    LEEWAY_SECONDS,
    LINK,
    LOGIN_SECONDS,
    Claims,
    Tokens,
)
from contextrender_bridge.server.runtime import Runtime

from graph.runtime.identities import Identities, NameTaken
from graph.runtime.request import Signer
from graph.sessions.ids import link_id, session_id_of

LOCAL_USER = "local"
# bcrypt ignores what comes after.
PASSWORD_BYTES = 72
GENERATION = "tokens"
"""Where a user's profile has the generation of the tokens that are good; unnamed at first."""


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


class Accounts:
    """Users and tokens. Nobody can register: users are added by whoever runs the server."""

    def __init__(self, runtime: Runtime, data: Path) -> None:
        """Keeps users in the runtime's store, the secret of their tokens in `data`."""
        self._runtime = runtime
        self._store = runtime.store
        self._tokens = Tokens(data)
        self._users = Identities(runtime.store)
        self._decoy = bcrypt.hashpw(b"", bcrypt.gensalt())
        self.audit = Audit(data)
        self._counts = Counts(data)

    def close(self) -> None:
        """Close the file of the codes that were used."""
        self._counts.close()

    def add(self, name: str, password: str | None = None) -> str:
        """Create a user with a root of their own and return the id. No password: a random one."""
        if not (len(name) <= 64 and name.isascii() and name.replace("-", "").isalnum()):
            raise CommandError("a user name is 1 to 64 letters, digits and dashes.")
        if password is not None:
            _check_password(password)
        with self._runtime.unit_of_work() as memory:
            try:
                made = self._users.create_user(
                    [{"type": "username", "value": name}],
                    {"type": "password", "password": password or secrets.token_urlsafe(32)},
                )
            except NameTaken:  # somebody was faster
                made = {"error": name}
            memory.flush()
        if "error" in made:
            raise CommandError(f"there is a user '{name}' already.")
        self.audit.note("user_added", name)
        return str(made["user_id"])

    def find(self, name: str) -> str | None:
        """The id of the user of that name."""
        user = self._users.find_user_by_identity(name)
        return str(user["user_id"]) if user else None

    def named(self, name: str) -> Caller:
        """The user of that name, one who is being removed too. Raises CommandError."""
        found = [user for user in self.all() if user.name.lower() == name.lower()]
        if not found:
            raise CommandError(f"there is no user '{name}'.")
        return found[0]

    def all(self) -> list[Caller]:
        """Every user, by name."""
        rows = self._store.read("SELECT user_id FROM identity_users")
        users = [user for (id,) in rows if (user := self._user(id)) is not None]
        return sorted(users, key=lambda user: user.name)

    def set_password(self, name: str, password: str) -> None:
        """Another password; tokens got with the old one are no longer good."""
        _check_password(password)
        user = self.named(name)
        self._users.reset_password(user.user, password)
        self.audit.note("password_changed", user.name)
        self.revoke(user)

    def revoke(self, user: Caller) -> None:
        """Revokes all tokens of the user, everywhere."""
        self._users.update_user_fields(
            user.user, {"profile": {GENERATION: secrets.token_urlsafe(9)}}
        )
        self.audit.note("tokens_revoked", user.name)

    def lock_out(self, user: Caller) -> None:
        """Neither tokens nor password let the user in any more."""
        self._users.update_user_fields(user.user, {"status": "disabled"})
        self.revoke(user)

    def forget(self, user: Caller) -> None:
        """Delete the account; the name is free again."""
        self._users.delete_user(user.user)
        self.audit.note("user_removed", user.name)

    def local_token(self, known: str = "", days: int | None = None) -> str:
        """A token of the local user, who is created at first use: `known`, while it will do."""
        if self.find(LOCAL_USER) is None:
            # Of two servers started at once on a new folder, one is the faster.
            with suppress(CommandError):
                self.add(LOCAL_USER)
        user = str(self.find(LOCAL_USER))
        claims = self._tokens.read(known) if known else None
        if claims and not claims.is_due and self._bearer(claims) and claims.user == user:
            return known
        return self.token(user, days)

    def token(self, user: str, days: int | None = None) -> str:
        """A new token of the user with that id, valid for `days` or as long as is set."""
        return self._token(user, (days or current_settings().token_days) * DAY)

    def login(self, name: str, password: str) -> str | None:
        """A token for the right password; a wrong name takes as long as a wrong password."""
        if len(password.encode()) > PASSWORD_BYTES or "\0" in password:
            return None
        if self.find(name) is None:
            bcrypt.checkpw(password.encode(), self._decoy)
            return None
        user = self._users.authenticate(name, password)
        return self._token(str(user["user_id"]), LOGIN_SECONDS) if user else None

    def caller(self, token: str) -> Caller | None:
        """The user of a token, if the token is valid."""
        claims = self._tokens.read(token)
        return None if claims is None else self._bearer(claims)

    def signer(self, user: Caller) -> Signer:
        """What makes the user's read-only links."""

        def sign(session: str, name: str, ends: int) -> str:
            return self._tokens.link(user.user, user.generation, session, name, ends)

        return Signer(user.generation, sign)

    def visitor(self, token: str) -> Caller | None:
        """The user and session of a valid read-only link; it opens nothing else.

        It is valid while its node is there: revoked, or deleted with its session, it opens nothing.
        """
        claims = self._tokens.read(token, LINK)
        if claims is None or (user := self._bearer(claims)) is None:
            return None
        owner = UUID(user.root)
        link = link_id(session_id_of(owner, claims.session), claims.id)
        if time.time() >= claims.expires or not any(self._store.nodes(owner, [link])):
            return None
        name = f"{user.name} (link)"
        return replace(user, user=f"{user.user} link", name=name, only=claims.session)

    def console_code(self, token: str) -> str:
        """What signs in to the console, once and soon, as the bearer of a good token."""
        return self._tokens.code(token)

    def take_code(self, code: str) -> Caller | None:
        """Whose code it is, at its first use."""
        claims = self._tokens.read(code, CODE)
        if claims is None or not self._is_first_use(claims):
            return None
        if user := self._bearer(claims):
            self.audit.note("console_opened", user.name)
        return user

    def console_sign_in(self, user: Caller) -> tuple[str, str]:
        """A cookie for the console, and the proof without which it is refused."""
        cookie = self._tokens.make(user.user, user.generation, LOGIN_SECONDS, CONSOLE)
        return cookie, self._tokens.proof(cookie)

    def console_caller(self, cookie: str, proof: str) -> Caller | None:
        """Whose cookie it is, if its proof came with it."""
        if not hmac.compare_digest(self._tokens.proof(cookie).encode(), proof.encode()):
            return None
        claims = self._tokens.read(cookie, CONSOLE)
        return None if claims is None else self._bearer(claims)

    def _is_first_use(self, code: Claims) -> bool:
        with self._counts.changing() as file:
            file.execute("DELETE FROM codes WHERE expires < ?", (time.time() - LEEWAY_SECONDS,))
            row = (code.id, code.expires)
            return file.execute("INSERT OR IGNORE INTO codes VALUES (?, ?)", row).rowcount == 1

    def _bearer(self, claims: Claims) -> Caller | None:
        user = self._user(claims.user)
        good = user and user.active and user.generation == claims.generation
        return user if good else None

    def _token(self, id: str, seconds: int) -> str:
        user = self._user(id)
        if user is None or not user.active:
            raise CommandError("there is no such user any more.")
        self.audit.note("token_made", user.name, days=seconds / DAY)
        return self._tokens.make(id, user.generation, seconds)

    def _user(self, id: str) -> Caller | None:
        rows = self._store.read(
            "SELECT root_id, status, identities, profile FROM identity_users WHERE user_id = ?",
            (id,),
        )
        if not rows or not rows[0][0]:
            return None
        root, status, identities, profile = rows[0]
        name = next(one["value_raw"] for one in _json(identities) if one["type"] == "username")
        generation = (_json(profile) or {}).get(GENERATION, "")
        return Caller(id, str(root), name, generation, status != "disabled")


def _check_password(password: str) -> None:
    if not 8 <= len(password.encode()) <= PASSWORD_BYTES:
        raise CommandError(f"a password has 8 to {PASSWORD_BYTES} bytes.")


def _json(value: Any) -> Any:
    """A JSON column: one database gives its text, another what it says."""
    return json.loads(value) if isinstance(value, str) else value
