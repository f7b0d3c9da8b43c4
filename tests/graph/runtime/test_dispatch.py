"""Filters of traversals are read once, and a hook that nobody else has is jaclang's own function:
in a process of its own.
"""

import subprocess
import sys

SCRIPT = """
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.runtime import load_app
from contextrender_bridge.server.serving import warm_up
load_app(app_dir())
from jaclang.jac0core.constructs import Root
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac, hookimpl, plugin_manager
from jaclang.runtimelib import planner
before = {name: getattr(Jac, name) for name in vars(plugin_manager.hook)}
filters = [lambda i: isinstance(i, int), lambda i: i.n > 3, lambda i: i in (1, 2), None]
found = [planner._filter_has_predicates(each) for each in filters]
warm_up()
now = {name: getattr(Jac, name) for name in before}
warm_up()
assert now == {name: getattr(Jac, name) for name in before}
assert found == [False, True, True, False]
assert found == [planner._filter_has_predicates(each) for each in filters]
for name, hook in vars(plugin_manager.hook).items():
    if len(hook.get_hookimpls()) > 1 or not hook._firstresult:  # ours, jac-scale's or byllm's
        assert now[name] is before[name], name
for name in ("get_context", "spawn", "connect", "refs", "visit"):
    assert now[name] is not before[name], name
assert Jac.thread_run is before["thread_run"]  # it takes any number of arguments

class Later:
    @staticmethod
    @hookimpl
    def object_ref(obj):
        return "asked"

here = Root()
assert Jac.object_ref(here) == here.__jac__.id.hex
plugin_manager.register(Later, name="later")
assert Jac.object_ref(here) == Jac.object_ref(obj=here) == "asked"
plugin_manager.unregister(Later)
assert Jac.object_ref(here) == here.__jac__.id.hex
print("ok")
"""


def test_walks_take_no_detours_and_every_plugin_is_asked() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert ran.stdout == "ok\n", ran.stderr
