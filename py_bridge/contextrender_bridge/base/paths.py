"""Finds the folders of the Jac app and of the data, and writes private files."""

import os
import secrets
import sys
from contextlib import suppress
from pathlib import Path

from contextrender_bridge.base.errors import CommandError, NotWritable
from contextrender_bridge.base.setting_kinds import as_secret
from contextrender_bridge.base.settings import current_settings

ENTRY = "contextrender.jac"
HOW_TO_NAME_IT = "--data or CONTEXTRENDER_DATA"
CONTEXTRENDER_FILES = frozenset(
    {"jwt_secret", "store.db", "credentials.json", "proxy_secret", "leases"}
)
"""File names by which a data folder of ContextRender is recognized."""


def app_dir() -> Path:
    """Return the folder of `contextrender.jac`: the wheel's `app`, or the root of a checkout.

    Raise CommandError if neither has that file.
    """
    package = Path(__file__).resolve().parent.parent
    for candidate in (package / "app", package.parent.parent):
        if (candidate / ENTRY).is_file():
            return candidate
    raise CommandError(f"{ENTRY} is neither packaged with nor beside {package}.")


def make_app_importable() -> Path:
    """Add `app_dir`, which has the packages `nodes` and `walkers`, to `sys.path`, and return it."""
    app = app_dir()
    if str(app) not in sys.path:
        sys.path.insert(0, str(app))
    return app


def data_dir() -> Path:
    """Return the data folder that is set, or this user's folder for application data."""
    return current_settings().data


def make_private(folder: Path) -> Path:
    """Create `folder` for its owner alone, if it does not exist, and return its resolved path.

    Raise CommandError if it cannot be created, NotWritable if it cannot be written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except FileExistsError:  # A file has this path.
        raise CommandError(
            f"the data folder {folder} is a file: name another with {HOW_TO_NAME_IT}."
        ) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise CommandError(
            f"cannot make the data folder {folder} ({reason}): name another with {HOW_TO_NAME_IT}."
        ) from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotWritable(
            f"the data folder {folder} cannot be written to: name another with {HOW_TO_NAME_IT}."
        )
    return folder.resolve()


def make_data_private(folder: Path) -> Path:
    """Make sure that a data folder exists and is closed to other users; return its resolved path.

    Close an open folder only if it belongs to this user, and is empty or has one of
    `CONTEXTRENDER_FILES`, so that nobody else's folder is closed. Raise CommandError for any other
    open folder. Raise the errors of `make_private`, too.
    """
    folder = make_private(folder)
    status = folder.stat()
    is_own = hasattr(os, "geteuid") and status.st_uid == os.geteuid()
    # In a container, the data folder may be a volume that belongs to another user and is open to
    # the container's group. So only a folder of this user must be closed to its group, too.
    forbidden_bits = 0o077 if is_own else 0o007
    if os.name == "nt" or not status.st_mode & forbidden_bits:
        return folder
    names = {path.name for path in folder.iterdir()}
    if is_own and (not names or names & CONTEXTRENDER_FILES):
        folder.chmod(0o700)
        return folder
    raise CommandError(
        f"the data folder {folder} is open to other users (mode {status.st_mode & 0o777:o}) and "
        f"not ContextRender's alone: name a folder of its own with {HOW_TO_NAME_IT}, or close it "
        "(chmod 700)."
    )


def write_private(path: Path, text: str) -> None:
    """Replace the contents of `path` by `text` in one step. Only its owner can read the file.

    If the machine loses power meanwhile, the file has either the old or the new contents.
    """
    # Write to another file and sync it, then rename it.
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to disk, so that they survive a power loss. Skip it on Windows."""
    with suppress(PermissionError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def secret_in(path: Path) -> str:
    """Return the secret in a private file. Create the file with a new secret if there is none.

    Raise CommandError if the file cannot be read or the secret is too short.
    """
    if not path.exists():
        # Write a new secret to another file, and link it to `path` if there is still no file.
        new_file = path.with_name(f"{path.name}.{os.getpid()}")
        write_private(new_file, secrets.token_urlsafe(32))
        # Unlike a rename, a link never replaces the secret that another process has just made.
        with suppress(FileExistsError):
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
