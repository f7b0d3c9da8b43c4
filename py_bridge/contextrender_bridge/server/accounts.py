"""Who may call: users in jac-scale's user store, and the tokens they carry."""

import os
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import bcrypt
import jwt
from sqlalchemy.exc import IntegrityError

from contextrender_bridge.errors import CommandError
from contextrender_bridge.paths import write_private
from contextrender_bridge.server.runtime import Runtime
from contextrender_bridge.settings import current_settings
from graph.runtime.identities import Identities

LOCAL_USER = "local"
TOKEN_SECONDS = 365 * 24 * 3600
# bcrypt ignores what comes after.
PASSWORD_BYTES = 72


@dataclass(frozen=True)
class Caller:
    """An authenticated user."""

    user: str
    root: str


class Accounts:
    """Users and tokens. Nobody can register: users are added by whoever runs the server."""

    def __init__(self, runtime: Runtime, data: Path) -> None:
        """Keeps users in the runtime's store, the secret of their tokens in `data`."""
        self._runtime = runtime
        self._secret = _secret(data)
        self._users = Identities(runtime.store.engine())
        self._callers: dict[str, Caller] = {}
        self._decoy = bcrypt.hashpw(b"", bcrypt.gensalt())

    def add(self, name: str, password: str | None = None) -> str:
        """Create a user with a root of their own and return the id. No password: a random one."""
        if not (len(name) <= 64 and name.isascii() and name.replace("-", "").isalnum()):
            raise CommandError("a user name is 1 to 64 letters, digits and dashes.")
        if password is not None and not 8 <= len(password.encode()) <= PASSWORD_BYTES:
            raise CommandError(f"a password has 8 to {PASSWORD_BYTES} bytes.")
        with self._runtime.unit_of_work() as memory:
            try:
                made = self._users.create_user(
                    [{"type": "username", "value": name}],
                    {"type": "password", "password": password or secrets.token_urlsafe(32)},
                )
            except IntegrityError:  # somebody was faster
                made = {"error": name}
            memory.flush()
        if "error" in made:
            raise CommandError(f"there is a user '{name}' already.")
        return str(made["user_id"])

    def find(self, name: str) -> str | None:
        """The id of the user of that name."""
        user = self._users.find_user_by_identity(name)
        return str(user["user_id"]) if user else None

    def local_token(self) -> str:
        """A token of the local user, who is created at first use."""
        if self.find(LOCAL_USER) is None:
            # Of two servers started at once on a new folder, one is the faster.
            with suppress(CommandError):
                self.add(LOCAL_USER)
        return self.token(str(self.find(LOCAL_USER)))

    def token(self, user: str) -> str:
        """A new token, good for a year."""
        now = int(time.time())
        claims = {"sub": user, "iat": now, "exp": now + TOKEN_SECONDS}
        return jwt.encode(claims, self._secret, algorithm="HS256")

    def login(self, name: str, password: str) -> str | None:
        """A token for the right password; a wrong name takes as long as a wrong password."""
        if len(password.encode()) > PASSWORD_BYTES or "\0" in password:
            return None
        if self.find(name) is None:
            bcrypt.checkpw(password.encode(), self._decoy)
            return None
        user = self._users.authenticate(name, password)
        return self.token(user["user_id"]) if user else None

    def name_of(self, token: str) -> str | None:
        """The name of the user whose token it is, if it is good."""
        caller = self.caller(token)
        return None if caller is None else str(self._users.get_username(caller.user))

    def caller(self, token: str) -> Caller | None:
        """Whose token it is, if it is good."""
        try:
            user = str(jwt.decode(token, self._secret, algorithms=["HS256"])["sub"])
        except (jwt.PyJWTError, KeyError, ValueError):
            return None
        if user not in self._callers:
            root = self._users.get_root_id(user)
            if not root:
                return None
            self._callers[user] = Caller(user, str(root))
        return self._callers[user]


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
