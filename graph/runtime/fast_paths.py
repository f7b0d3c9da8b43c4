"""What the Jac runtime does dozens of times a request, done faster with the same outcome.

Without them a render took nearly twice as long (docs/performance.md, What was changed).
"""

from typing import Any

from jaclang.jac0core.runtime import JacRuntimeInterface, plugin_manager
from jaclang.runtimelib import changeset
from jaclang.runtimelib.serializer import Serializer


def install() -> None:
    """Takes them for this process; again does nothing more."""
    Serializer._compute_hash = staticmethod(state_hash)
    changeset.field_hash = value_hash
    _call_directly()


def state_hash(anchor: Any) -> int:
    """A number that follows everything stored of an anchor; never 0, which means "new".

    The runtime hashes the anchor's JSON instead, texts included, at every load and twice for every
    commit. A string computes its hash once.
    """
    state = vars(anchor)
    archetype = state.get("archetype")
    fields = {} if archetype is None else vars(archetype)
    source, target = state.get("source"), state.get("target")
    parts = (
        state.get("root"),
        state.get("persistent"),
        (anchor.access.all, *anchor.access.roots.anchors.items()),
        tuple([_hashable(value) for name, value in fields.items() if name[0] != "_"]),
        tuple([edge.id.int for edge in state.get("edges", ())]),
        state.get("version"),
        state.get("topology_index_data"),
        source and source.id,
        target and target.id,
        state.get("is_undirected"),
    )
    return hash(parts) or 1


def value_hash(value: object) -> int:
    """A number that follows one field's value."""
    return hash(_hashable(value))


def _hashable(value: object) -> object:
    """Values that differ give others, in type alone too: None is not "None"."""
    return value if isinstance(value, str) else (repr(value),)


def _call_directly() -> None:
    """Spares the runtime's calls to itself the plugin manager where no plugin has a say.

    For each of some 150 calls a request it binds the arguments by name.
    """
    for name, hook in vars(plugin_manager.hook).items():
        implementations = hook.get_hookimpls()
        if hook._firstresult and len(implementations) == 1:
            setattr(JacRuntimeInterface, name, staticmethod(implementations[0].function))
