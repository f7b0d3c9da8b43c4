"""The endpoints of a service in this process, without HTTP."""

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contextrender_bridge.base.paths import app_dir
from contextrender_bridge.base.wire import Json
from contextrender_bridge.server.accounts.users import Accounts
from contextrender_bridge.server.runtime import Runtime


@dataclass
class LocalService:
    runtime: Runtime
    accounts: Accounts
    data: Path
    token: str

    def __call__(self, walker: str, **fields: Any) -> Any:
        caller = self.accounts.caller(self.token)
        assert caller is not None
        reply = self.runtime.call(walker, fields, caller.root)
        return json.loads(reply)["reports"][0]

    def branches(self, session: str) -> list[Json]:
        return list(self("export_session", session=session)["branches"])


@contextmanager
def local_service(data: Path, token: str = "") -> Iterator[LocalService]:
    """Open the endpoints of the local user, or of a token's user, until the block ends."""
    data.mkdir(exist_ok=True)
    with closing(Runtime(app_dir(), data)) as runtime:
        accounts = Accounts(runtime, data)
        yield LocalService(runtime, accounts, data, token or accounts.local_token())
