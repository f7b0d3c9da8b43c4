"""A program with packages of the same names as the app's, which uses the service in its process."""

import os
import subprocess
from pathlib import Path

PACKAGES = ("engine", "evaluation", "graph", "nodes", "views", "walkers")
SCRIPT = """
import importlib, sys
from pathlib import Path

PACKAGES = {packages!r}

def import_own():
    for name in PACKAGES:
        assert importlib.import_module(name).WHOSE == "the host's", name
        assert importlib.import_module(name + ".history").WHOSE == "the host's", name

if sys.argv[1] == "before":
    import_own()

from contextrender_bridge import embedded

text = "The report_ID is A-1234-77. " + "More of it follows here. " * 400
messages = [{{"role": "user", "content": "Read every report."}}]
for number in range(4):
    function = {{"name": "read", "arguments": "{{}}"}}
    call = {{"id": str(number), "type": "function", "function": function}}
    messages += [
        {{"role": "assistant", "content": None, "tool_calls": [call]}},
        {{"role": "tool", "tool_call_id": str(number), "content": text}},
    ]
messages.append({{"role": "assistant", "content": "It is A-1234-77."}})

with embedded(Path(sys.argv[2])) as service, service.client() as client:
    rendered = client.render("run", messages, budget=5000)
    assert rendered["omitted"], rendered
    explained = client.explain("run")
    assert len(explained["results"]) == 4
    assert client.recall("run", query="A-1234-77")
    if sys.argv[1] == "amid":
        import_own()
    client.sync("run", [*messages, {{"role": "user", "content": "And now?"}}])
import_own()
assert [path for path in sys.path if (Path(path) / "contextrender.jac").exists()] == []
print("done")
"""


def run_host(python: Path, folder: Path, when: str) -> Path:
    """Run it with `python`, its own packages imported `before`, `amid` or `after`; its data."""
    for name in PACKAGES:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file in ("__init__.py", "history.py"):
            (folder / name / file).write_text('WHOSE = "the host\'s"\n')
    script = folder / "host.py"
    script.write_text(SCRIPT.format(packages=PACKAGES))
    data = folder / f"data-{when}"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), str(script), when, str(data)]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("done\n")
    return data
