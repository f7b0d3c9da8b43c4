"""What stops a command."""


class CommandError(Exception):
    """A sentence for the user; `status` is the exit code."""

    def __init__(self, message: str, status: int = 1) -> None:
        """Keeps the exit code beside the message."""
        super().__init__(message)
        self.status = status
