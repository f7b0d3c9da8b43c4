"""The folders of the Jac app and of the data."""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, NotWritable
from contextrender_bridge.base.setting_kinds import as_secret
from contextrender_bridge.base.settings import current_settings

ENTRY = "contextrender.jac"
SAY = "--data or CONTEXTRENDER_DATA"


def app_dir() -> Path:
    """Return the folder of `contextrender.jac`: in the wheel, or the repository of a checkout."""
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "app", package.parent.parent):
        if (candidate / ENTRY).is_file():
            return candidate
    raise CommandError(f"{ENTRY} is neither packaged with nor beside {package}.")


def make_app_importable() -> Path:
    """Put `app_dir`, with its packages `nodes` and `walkers`, on the path; return it."""
    app = app_dir()
    if str(app) not in sys.path:
        sys.path.insert(0, str(app))
    return app


def data_dir() -> Path:
    """Return the data folder that is set, or this user's folder for application data."""
    return current_settings().data


def make_private(folder: Path) -> Path:
    """Create `folder`, readable by its owner alone when it is new, and return it resolved.

    Raises CommandError when it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError:
        raise CommandError(
            f"the data folder {folder} is a file: name another with {SAY}."
        ) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CommandError(
            f"cannot make the data folder {folder} ({reason}): name another with {SAY}."
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotWritable(
            f"the data folder {folder} cannot be written to: name another with {SAY}."
        )
    return folder.resolve()


OWN_NAMES = ("jwt_secret", "store.db", "credentials.json", "proxy_secret", "leases")


def make_data_private(folder: Path) -> Path:
    """Create a data folder, or close it to other users, and return it resolved.

    A folder that others can open is closed if it is this user's and has nothing else in it.
    Otherwise raise CommandError, as `make_private`.
    """
    folder = make_private(folder)
    status = folder.stat()
    is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    # The group of somebody else's folder is how a volume is given to a container.
    if not status.st_mode & (0o077 if is_own else 0o007) or os.name == "nt":
        return folder
    names = {path.name for path in folder.iterdir()}
    if is_own and (not names or names & set(OWN_NAMES)):
        folder.chmod(0o700)
        return folder
    raise CommandError(
        f"the data folder {folder} is open to other users (mode {status.st_mode & 0o777:o}) and "
        f"not ContextRender's alone: name a folder of its own with {SAY}, or close it (chmod 700)."
    )


def write_private(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step, also if the machine loses power.

    Only its owner can ever read it.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk; Windows has no such call."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def secret_in(path: Path) -> str:
    """Return the secret in a file that its owner alone can read, made if there is no such file.

    Raise CommandError if the file's secret is not one that a setting may have.
    """
    if not path.exists():
        new_file = path.with_name(f"{path.name}.{os.getpid()}")
        write_private(new_file, secrets.token_urlsafe(32))
        with suppress(FileExistsError):  # another process has just made one
            path.hardlink_to(new_file)
        new_file.unlink()
        sync_folder(path.parent)
    try:
        return as_secret(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CommandError(
            f"the secret in {path} cannot be used ({error}). Restore it from a backup, or "
            "delete the file: another is made then, and all older tokens and links end."
        ) from None
