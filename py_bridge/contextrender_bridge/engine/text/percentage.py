"""The one format of shares in messages and on the command line. The console has the same."""


def percent(share: float) -> str:
    """Return a share as a percentage. A share below 1 is never written as 100%."""
    if 0.995 <= share < 1:
        return f"{min(share, 0.999):.1%}"
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"
