"""The changes that an installation makes, as objects that can be printed before they are made."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from contextrender_bridge.base.errors import CommandError

PROGRAM_SECONDS: Final = 120.0


class Change(Protocol):
    """One change of a user's files."""

    def describe(self) -> str:
        """Return one line that describes the change."""

    def apply(self) -> None:
        """Make the change. Raise CommandError if it cannot be made."""


@dataclass(frozen=True)
class WriteFiles:
    """A change that writes ContextRender's own files: texts by their path below `folder`."""

    folder: Path
    texts: Mapping[str, str] = field(repr=False)

    def describe(self) -> str:
        """Return one line that describes the change."""
        return f"write {', '.join(sorted(self.texts))} in {self.folder}"

    def apply(self) -> None:
        """Write the files. Raise CommandError if one cannot be written."""
        for name, text in self.texts.items():
            path = self.folder / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise CommandError(f"cannot write {path} ({error.strerror}).") from None


@dataclass(frozen=True)
class Remove:
    """A change that removes a file or folder of ContextRender's own."""

    path: Path

    def describe(self) -> str:
        """Return one line that describes the change."""
        return f"remove {self.path}"

    def apply(self) -> None:
        """Remove the file or folder if it exists. Raise CommandError if that fails."""
        try:
            if self.path.is_dir() and not self.path.is_symlink():
                shutil.rmtree(self.path)
            else:
                self.path.unlink(missing_ok=True)
        except OSError as error:
            raise CommandError(f"cannot remove {self.path} ({error.strerror}).") from None


@dataclass(frozen=True)
class Rewrite:
    """A change that replaces the text of a user's file, and keeps the file's mode."""

    path: Path
    text: str = field(repr=False)
    description: str

    def describe(self) -> str:
        """Return one line that describes the change."""
        return f"{self.description} in {self.path}"

    def apply(self) -> None:
        """Write the new text to a file beside `path`, then rename that file to `path`.

        Raise CommandError if that fails.
        """
        path = self.path.resolve()
        temporary = path.with_name(f"{path.name}.contextrender")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(self.text, encoding="utf-8")
            if path.exists():
                shutil.copymode(path, temporary)
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise CommandError(f"cannot write {path} ({error.strerror}).") from None


@dataclass(frozen=True)
class RunProgram:
    """A change that the agent's own command makes. With `may_fail`, its errors are ignored."""

    words: Sequence[str]
    may_fail: bool = False

    def describe(self) -> str:
        """Return one line that describes the change."""
        return f"run {shlex.join(self.words)}"

    def apply(self) -> None:
        """Run the command. Raise CommandError if it fails, unless it `may_fail`."""
        try:
            process = subprocess.run(
                list(self.words),
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
                timeout=PROGRAM_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            if not self.may_fail:
                raise CommandError(f"`{shlex.join(self.words)}` failed: {error}") from None
            return
        if process.returncode and not self.may_fail:
            # The last line of the output is usually the reason.
            output = (process.stderr.strip() or process.stdout.strip()).splitlines()
            reason = output[-1] if output else f"exit code {process.returncode}"
            raise CommandError(f"`{shlex.join(self.words)}` failed: {reason}")
