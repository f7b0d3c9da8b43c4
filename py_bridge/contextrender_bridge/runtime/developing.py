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
from contextrender_bridge.sessions.ids import session_id

MAX_NODES: Final = 10_000
MAX_EDGES: Final = 100_000


def check_source(file: Path) -> None:
    """Compile a Jac file. Raise CommandError with the line and reason if it has an error."""
    program = JacRuntime.get_program()
    try:
        JacRuntime.get_compiler().get_bytecode(str(file.resolve()), program)
    except ModuleNotFoundError as missing:
        if missing.name != "llvmlite":
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


def draw_session(key: str) -> str | None:
    """Return the user's session with this key as text for Graphviz, or None if there is none."""
    session = owned_node(session_id(key))
    if session is None:
        return None
    return str(printgraph(session, traverse=True, node_limit=MAX_NODES, edge_limit=MAX_EDGES))
