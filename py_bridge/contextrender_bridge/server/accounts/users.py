"""Users in jac-scale's tables: adding and removing users, their passwords and tokens."""

import secrets
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import bcrypt
from contextrender_bridge.base.errors import CommandError
from contextrender_bridge.base.settings import current_settings
from contextrender_bridge.runtime.identities import Identities, NameTaken
from contextrender_bridge.server.accounts.callers import (
    DAY,
    GENERATION,
    LOGIN_SECONDS,
    Caller,
    Callers,
)
from contextrender_bridge.server.runtime import Runtime
from contextrender_bridge.sessions.user_rows import remove_owner, stored_sessions

LOCAL_USER = "local"
PASSWORD_BYTES = 72
"""The maximum length of a password, because bcrypt ignores further bytes."""


class Accounts(Callers):
    """The users and their tokens. Only the operator adds users; nobody can register."""

    def __init__(self, runtime: Runtime, data: Path) -> None:
        """Use the runtime's store for users, and the folder `data` for the secret of tokens."""
        super().__init__(runtime.store, data)
        self._runtime = runtime
        self._users = Identities(runtime.store)
        self._decoy_hash = bcrypt.hashpw(b"", bcrypt.gensalt())

    def add(self, name: str, password: str | None = None) -> str:
        """Create a user with a graph of its own, and return the user's id.

        Without a password the user gets a random one, and can only sign in with tokens. Raise
        CommandError if the name or the password is invalid, or the name exists.
        """
        if not (len(name) <= 64 and name.isascii() and name.replace("-", "").isalnum()):
            raise CommandError("a user name is 1 to 64 letters, digits and dashes.")
        if password is not None:
            _check_password(password)
        with self._runtime.unit_of_work() as memory:
            try:
                result = self._users.create_user(
                    [{"type": "username", "value": name}],
                    {"type": "password", "password": password or secrets.token_urlsafe(32)},
                )
            except NameTaken:  # Another process has just added the user.
                result = {"error": name}
            memory.flush()
        if "error" in result:
            raise CommandError(f"there is a user '{name}' already.")
        self.audit.record("user_added", name)
        return str(result["user_id"])

    def find(self, name: str) -> str | None:
        """Return the id of the user with this name, or None."""
        user = self._users.find_user_by_identity(name)
        return str(user["user_id"]) if user else None

    def user_named(self, name: str) -> Caller:
        """Return the user with this name, even one that is being removed.

        Raise CommandError if there is none.
        """
        users = [user for user in self.all() if user.name.lower() == name.lower()]
        if not users:
            raise CommandError(f"there is no user '{name}'.")
        return users[0]

    def all(self) -> list[Caller]:
        """Return all users, ordered by name."""
        rows = self._store.read("SELECT user_id FROM identity_users")
        users = [user for (id,) in rows if (user := self._user(id)) is not None]
        return sorted(users, key=lambda user: user.name)

    def set_password(self, name: str, password: str) -> None:
        """Set a new password, and revoke all tokens of the user.

        Raise CommandError if the password is invalid or there is no such user.
        """
        _check_password(password)
        user = self.user_named(name)
        self._users.reset_password(user.user, password)
        self.audit.record("password_changed", user.name)
        self.revoke(user)

    def revoke(self, user: Caller) -> None:
        """Revoke all tokens of the user. It takes effect in every process at once."""
        self._users.update_user_fields(
            user.user, {"profile": {GENERATION: secrets.token_urlsafe(9)}}
        )
        self.audit.record("tokens_revoked", user.name)

    def lock_out(self, user: Caller) -> None:
        """Refuse the user's tokens and password from now on."""
        self._users.update_user_fields(user.user, {"status": "disabled"})
        self.revoke(user)

    def remove(self, name: str) -> int:
        """Delete a user's sessions and account, and return the number of sessions.

        The user is locked out first, so that no new session is made. The account is deleted last,
        so that the method can be run again after a failure. Raise CommandError if there is no such
        user, or if it is the local user.
        """
        user = self.user_named(name)
        if user.name == LOCAL_USER:
            raise CommandError("the local user cannot be removed.")
        self.lock_out(user)
        owner = UUID(user.root)
        keys = [session.key for session in stored_sessions(self._store, owner)]
        remove_owner(self._store, owner)
        for key in keys:
            self.audit.record("session_deleted", user.name, session=key)
        self._users.delete_user(user.user)
        self.audit.record("user_removed", user.name)
        return len(keys)

    def local_token(self, current_token: str = "", days: int | None = None) -> str:
        """Return a token of the local user. Create the user if it does not exist.

        Return `current_token` while it is valid and not due for renewal, otherwise a new token that
        is valid for `days` (default: the setting).
        """
        if self.find(LOCAL_USER) is None:
            # Another server that starts at the same time may have created the user.
            with suppress(CommandError):
                self.add(LOCAL_USER)
        user = str(self.find(LOCAL_USER))
        claims = self.tokens.read(current_token) if current_token else None
        if claims and not claims.is_due and self._bearer(claims) and claims.user == user:
            return current_token
        return self.token(user, days)

    def token(self, user: str, days: int | None = None) -> str:
        """Return a new token of the user with this id, valid for `days` (default: the setting).

        Raise CommandError if there is no such active user.
        """
        return self._token(user, (days or current_settings().token_days) * DAY)

    def login(self, name: str, password: str) -> str | None:
        """Return a new token if the name and the password are right, otherwise None.

        For an unknown name, check another password hash. Then it takes as long as a wrong password,
        so that callers cannot find out which names exist.
        """
        if len(password.encode()) > PASSWORD_BYTES or "\0" in password:
            return None
        if self.find(name) is None:
            bcrypt.checkpw(password.encode(), self._decoy_hash)
            return None
        user = self._users.authenticate(name, password)
        return self._token(str(user["user_id"]), LOGIN_SECONDS) if user else None

    def _token(self, id: str, seconds: int) -> str:
        """Return a new token of the user `id`, valid for `seconds`. Record it in the audit log.

        Raise CommandError if the user was deleted or is locked out.
        """
        user = self._user(id)
        if user is None or not user.active:
            raise CommandError("there is no such user any more.")
        self.audit.record("token_made", user.name, days=seconds / DAY)
        return self.tokens.make(id, user.generation, seconds)


def _check_password(password: str) -> None:
    """Raise CommandError if a password is too short or too long."""
    if not 8 <= len(password.encode()) <= PASSWORD_BYTES:
        raise CommandError(f"a password has 8 to {PASSWORD_BYTES} bytes.")
