"""The peers: what is installed for each, and what its token budget means.

Each library has its own virtual environment, created once from pinned versions. Rules and functions
that need no library run in this one.
"""

import hashlib
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

COUNTING = ("tiktoken==0.14.0", "httpx==0.28.1", "numpy==2.5.5", "zstandard==0.25.0")
"""The packages that are needed to count tokens as ContextRender does."""
STAMP = "installed"
INSTALL_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Peer:
    """A method of another library for shortening a history.

    `requirements` are the packages to install; without any, the peer runs in this process's
    environment. `library` names the virtual environment, which peers may share, and the module
    `with_...` of this folder. `variant` selects one of the module's methods. `note` explains what
    the budget means for the peer.
    """

    name: str
    requirements: tuple[str, ...]
    library: str
    variant: str
    note: str


LANGCHAIN = ("langchain==1.3.18", "langchain-core==1.7.2")

FITS = "keeps as many of the newest results as fit the budget"
CLEARS = "cannot target a budget: past it, clears all but the last 3 results"
INDEX = "the budget is its token_limit; it does not count tool calls"
STUBS = "the budget is its compression_target; stubs and calls are not counted in it"
UNFIT = "cannot target a budget: compresses contents; its text model needs a download, so is off"
EDIT = "langchain ClearToolUsesEdit"
PRUNES = "ignores the budget: of earlier user turns, clears all but 40,000 tokens of results"
KEEPS = "replaces the oldest results by a note until the rest fits"
PEERS = (
    Peer("newest results", (), "rules", "newest", KEEPS),
    Peer("opencode's pruning", (), "rules", "opencode", PRUNES),
    Peer("langchain trim_messages", LANGCHAIN, "langchain", "trim", "the budget is its max_tokens"),
    Peer(EDIT, LANGCHAIN, "langchain", "clear", CLEARS),
    Peer(f"{EDIT}, fitted", LANGCHAIN, "langchain", "clear fitted", FITS),
    Peer("LlamaIndex ChatMemoryBuffer", ("llama-index-core==0.14.25",), "llama_index", "", INDEX),
    Peer("LiteLLM compress", ("litellm==1.103.7",), "litellm", "", STUBS),
    Peer("headroom compress", ("headroom-ai==0.42.0",), "headroom", "", UNFIT),
)


def function_peer(name: str) -> Peer:
    """Return the peer that calls a function, named as `module:function`.

    The function takes messages and the number of tokens that they may have. It returns messages.
    """
    return Peer(name, (), "function", name, "the budget is its second argument")


class Unavailable(Exception):
    """An error with the reason why a peer cannot be measured."""


def python_of(peer: Peer, folder: Path) -> Path:
    """Return the path of the peer's Python; install the peer if it is not. Raise Unavailable."""
    if not peer.requirements:
        return Path(sys.executable)
    home = folder / peer.library
    python: Path = home / "bin" / "python"
    stamp = home / STAMP
    fingerprint = hashlib.sha256(" ".join([*peer.requirements, *COUNTING]).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == fingerprint:
        return python
    print(f"Installing {', '.join(peer.requirements)} ...", file=sys.stderr)
    _run([sys.executable, "-m", "venv", "--clear", str(home)])
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run([*pip, *peer.requirements, *COUNTING])
    stamp.write_text(fingerprint)
    return python


def _run(command: list[str]) -> None:
    """Run a command of an installation. Raise Unavailable, with a reason, if it fails."""
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"it could not be installed: {error}") from None
    if process.returncode:
        errors = [line for line in process.stderr.splitlines() if line.startswith("ERROR")]
        reason = (errors or process.stderr.splitlines() or ["no reason given"])[0]
        raise Unavailable(f"it could not be installed: {reason}")
