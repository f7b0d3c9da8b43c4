"""jaclang's hooks, called without asking plugins that are not there: in a process of its own."""

import subprocess
import sys

SCRIPT = """
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.runtime import load_app
from contextrender_bridge.server.serving import warm_up
load_app(app_dir())
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac, plugin_manager
from jaclang.runtimelib import planner
hooks = vars(plugin_manager.hook)
before = {name: getattr(Jac, name) for name in hooks}
filters = [lambda i: isinstance(i, int), lambda i: i.n > 3, lambda i: i in (1, 2), None]
found = [planner._filter_has_predicates(each) for each in filters]
warm_up()
warm_up()
assert found == [False, True, True, False]
assert found == [planner._filter_has_predicates(each) for each in filters]
for name, hook in hooks.items():
    plugins = hook.get_hookimpls()
    now = getattr(Jac, name)
    if len(plugins) > 1 or not hook._firstresult:  # ours, or byllm's
        assert now is before[name], name
    else:
        assert now is plugins[0].function, name
assert Jac.commit is before["commit"] and Jac.get_context is not before["get_context"]
print("ok")
"""


def test_only_hooks_that_nobody_else_has_are_called_directly() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert ran.stdout == "ok\n", ran.stderr
