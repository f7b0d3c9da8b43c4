"""Tools for Jac developers: run their own walkers on the stored graph, and draw a session."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jaclang.jac0core.archetype import WalkerArchetype
from jaclang.jac0core.runtime import JacRuntime
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac
from jaclang.runtimelib.builtin import printgraph

from contextrender_bridge.base.errors import CommandError, ContextRenderError
from contextrender_bridge.runtime.memory import owned_node
from contextrender_bridge.runtime.queries import list_nodes
from contextrender_bridge.sessions.ids import session_id

MAX_SESSIONS: Final = 100_000
MAX_NODES: Final = 10_000
MAX_EDGES: Final = 100_000


def check_source(file: Path) -> None:
    """Compile a Jac file. Raise CommandError with the line and reason if it has an error."""
    program = JacRuntime.get_program()
    try:
        JacRuntime.get_compiler().get_bytecode(str(file.resolve()), program)
    except ModuleNotFoundError as error:
        if error.name != "llvmlite":
            raise
        raise CommandError(
            f"to compile {file} needs llvmlite, which a release leaves out: pip installs it."
        ) from None
    # The program also collects errors of imported files, so select the errors of this file.
    errors = [error for error in program.errors_had if error.loc.mod_path == str(file.resolve())]
    if errors:
        place = errors[0].loc
        more = f"; errors after it: {len(errors) - 1}" if len(errors) > 1 else ""
        message = str(errors[0].msg).rstrip(".")
        raise CommandError(f"{file}, line {place.first_line}: {message}{more}.")


@contextmanager
def report_failing_line(file: Path) -> Iterator[None]:
    """Raise CommandError if the block fails, with the reason and the failing line of `file`.

    The line is the innermost call in that file. Errors of ContextRender are raised unchanged.
    """
    try:
        yield
    except (CommandError, ContextRenderError):
        raise
    except Exception as failure:
        frames = traceback.extract_tb(failure.__traceback__)
        lines = [f.lineno for f in frames if Path(f.filename).resolve() == file.resolve()]
        # The last frame is the innermost call.
        place = f"{file}, line {lines[-1]}" if lines else f"{file}"
        raise CommandError(f"{place}: {type(failure).__name__}: {failure}.") from None


def walkers_of(file: Path) -> dict[str, type[Any]]:
    """Import a Jac file, and return the walkers that it declares by name.

    Raise CommandError if it does not compile.
    """
    check_source(file)
    JacRuntime.jac_import(target=file.stem, base_path=str(file.resolve().parent), lng="jac")
    module = JacRuntime.loaded_modules[file.stem]
    types = [value for value in vars(module).values() if isinstance(value, type)]
    walkers = [kind for kind in types if issubclass(kind, WalkerArchetype)]
    # A module also has the walkers that it imports.
    return {kind.__name__: kind for kind in walkers if kind.__module__ == module.__name__}


def spawn_at_root(walker: Any) -> None:
    """Run a walker from the root of the current unit of work's user."""
    Jac.spawn(walker, Jac.get_context().get_root())


def draw_session(name: str) -> str:
    """Return the user's session with this name as text for Graphviz.

    If there is none, take the only session whose name begins so. Raise CommandError if there is no
    such session, or if there are several.
    """
    session = owned_node(session_id(name))
    if session is None:
        session_type = JacRuntime.loaded_modules["nodes.session"].Session
        sessions: list[Any] = list_nodes(session_type, None, MAX_SESSIONS)
        matches = [each for each in sessions if name and each.key.startswith(name)]
        if len(matches) != 1:
            message = f"{len(matches)} sessions begin with" if matches else "there is no session"
            raise CommandError(f"{message} {name!r}.")
        session = matches[0]
    return str(printgraph(session, traverse=True, node_limit=MAX_NODES, edge_limit=MAX_EDGES))
