"""What an installation changes, as things that can be printed before they are process."""

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
        """Return what it changes, as a line."""

    def apply(self) -> None:
        """Make the change. Raise CommandError if it cannot be made."""


@dataclass(frozen=True)
class WriteFiles:
    """Files of ours alone: they are written below a folder, by their relative paths."""

    folder: Path
    texts: Mapping[str, str] = field(repr=False)

    def describe(self) -> str:
        """Return what it changes, as a line."""
        return f"write {', '.join(sorted(self.texts))} in {self.folder}"

    def apply(self) -> None:
        """Write the files."""
        for name, text in self.texts.items():
            path = self.folder / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise CommandError(f"cannot write {path} ({error.strerror}).") from None


@dataclass(frozen=True)
class Remove:
    """A file or folder of ours alone: it is removed."""

    path: Path

    def describe(self) -> str:
        """Return what it changes, as a line."""
        return f"remove {self.path}"

    def apply(self) -> None:
        """Remove it if it is there."""
        try:
            if self.path.is_dir() and not self.path.is_symlink():
                shutil.rmtree(self.path)
            else:
                self.path.unlink(missing_ok=True)
        except OSError as error:
            raise CommandError(f"cannot remove {self.path} ({error.strerror}).") from None


@dataclass(frozen=True)
class Rewrite:
    """A file of the user's: its text is replaced, and its mode stays."""

    path: Path
    text: str = field(repr=False)
    description: str

    def describe(self) -> str:
        """Return what it changes, as a line."""
        return f"{self.description} in {self.path}"

    def apply(self) -> None:
        """Write the new text beside the file, then put it in its place."""
        path = self.path.resolve()
        part = path.with_name(f"{path.name}.contextrender")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(self.text, encoding="utf-8")
            if path.exists():
                shutil.copymode(path, part)
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise CommandError(f"cannot write {path} ({error.strerror}).") from None


@dataclass(frozen=True)
class RunProgram:
    """A command of the agent's own that makes the change."""

    words: Sequence[str]
    may_fail: bool = False

    def describe(self) -> str:
        """Return what it changes, as a line."""
        return f"run {shlex.join(self.words)}"

    def apply(self) -> None:
        """Run the command."""
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
            output = (process.stderr.strip() or process.stdout.strip()).splitlines()
            reason = output[-1] if output else f"exit code {process.returncode}"
            raise CommandError(f"`{shlex.join(self.words)}` failed: {reason}")
