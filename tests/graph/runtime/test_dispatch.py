"""Filters of traversals, read once; the plugin manager is left alone. In a process of its own."""

import subprocess
import sys

SCRIPT = """
from contextrender_bridge.paths import app_dir
from contextrender_bridge.server.runtime import load_app
from contextrender_bridge.server.serving import warm_up
load_app(app_dir())
from jaclang.jac0core.runtime import JacRuntimeInterface as Jac, plugin_manager
from jaclang.runtimelib import planner
before = {name: getattr(Jac, name) for name in vars(plugin_manager.hook)}
filters = [lambda i: isinstance(i, int), lambda i: i.n > 3, lambda i: i in (1, 2), None]
found = [planner._filter_has_predicates(each) for each in filters]
warm_up()
warm_up()
assert found == [False, True, True, False]
assert found == [planner._filter_has_predicates(each) for each in filters]
assert before == {name: getattr(Jac, name) for name in before}
print("ok")
"""


def test_a_filter_reads_as_before_and_every_plugin_is_asked() -> None:
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True)
    assert ran.stdout == "ok\n", ran.stderr
