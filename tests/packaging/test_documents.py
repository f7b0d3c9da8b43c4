"""What documents name exists: commands with their options, files, headings, make targets and
tests.
"""

import argparse
import ast
import json
import pkgutil
import re
import subprocess
from functools import cache

import pytest
from contextrender_bridge.cli import SUBCOMMANDS

from tests.packaging.documents import DocumentedCommand, documented_commands, texts
from tests.server.servers import REPOSITORY

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TEXTS = dict(texts())
COMMANDS = [command for command in documented_commands() if command.words[0] == "contextrender"]


@pytest.mark.parametrize(
    "command", COMMANDS, ids=lambda command: f"{command.document}: {' '.join(command.words)}"
)
def test_documented_command_is_valid(command: DocumentedCommand) -> None:
    module = pkgutil.resolve_name(SUBCOMMANDS[command.words[1]].module)
    parser = argparse.ArgumentParser(prog=command.words[1])
    module.add_arguments(parser)
    parser.parse_args(command.words[2:])


@pytest.mark.parametrize("document", TEXTS)
def test_links_have_targets(document: str) -> None:
    for link in LINK.findall(TEXTS[document]):
        if link.startswith("http"):
            continue
        name, _, anchor = link.partition("#")
        path = REPOSITORY / document
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        if anchor:
            heads = (head.lower() for head in HEADING.findall(target.read_text("utf-8")))
            # GitHub builds heading anchors like this.
            assert anchor in {re.sub(r"[^\w\- ]", "", head).replace(" ", "-") for head in heads}, (
                link
            )


MAKEFILE = (REPOSITORY / "Makefile").read_text()
TARGETS = re.findall(r"^\.PHONY: ((?:.*\\\n)*.*)$", MAKEFILE, re.M)[0].replace("\\", "").split()


def test_every_make_target_can_run() -> None:
    dry = ["make", "--dry-run", *TARGETS, "TRACES=runs.jsonl"]
    process = subprocess.run(dry, cwd=REPOSITORY, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


def test_named_make_targets_exist() -> None:
    (loop,) = re.findall(r"^for target in (.*); do$", (REPOSITORY / ".ci/run").read_text(), re.M)
    named_targets = {
        name for text in TEXTS.values() for name in re.findall(r"`make ([a-z-]+)", text)
    }
    assert named_targets
    assert {*loop.split(), *named_targets} <= set(TARGETS)


NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize(
    ("page", "minimum"),
    [("docs/security.md", 30), ("py_bridge/contextrender_bridge/runtime/README.md", 10)],
)
def test_each_claim_names_existing_tests(page: str, minimum: int) -> None:
    checked, _, _ = TEXTS[page].partition("## Known limits")
    claims = [line for line in checked.splitlines() if line.startswith("- ")]
    assert len(claims) > minimum
    for claim in claims:
        matches = NAMED_TEST.findall(claim)
        assert matches, claim
        for path, name in matches:
            assert name in running_tests(path), f"{path}::{name}"


@cache
def running_tests(path: str) -> set[str]:
    """Return the tests of a file that are not marked skip or xfail."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not any(
            re.search(r"\.(skip|xfail)\b", ast.unparse(mark)) for mark in node.decorator_list
        )
    }


ADAPTERS = REPOSITORY / "adapters"
ROW = re.compile(r"^\| \[[^]]+\]\((\w+)\) \| [^|]+ \| ([^|]+) \|", re.MULTILINE)
ROWS = dict(ROW.findall((ADAPTERS / "README.md").read_text()))
UNPACKAGED = {"acon"}


def test_every_adapter_has_a_row() -> None:
    folders = {path.parent.name for path in ADAPTERS.glob("*/README.md")}
    assert set(ROWS) == folders


@pytest.mark.parametrize("adapter", sorted(set(ROWS) - UNPACKAGED))
def test_adapter_row_has_locked_version(adapter: str) -> None:
    matches = re.findall(r"\d+(?:\.\w+)+", ROWS[adapter])
    assert matches, f"{adapter}: no version in its row"
    assert set(matches) <= _locked_versions(adapter)


def _locked_versions(adapter: str) -> set[str]:
    """Return the locked versions of an adapter's packages; its runtime may have its own folder."""
    folder = ADAPTERS / adapter
    versions = {
        version
        for path in folder.glob("requirements.txt")
        for version in re.findall(r"==([^\s;]+)", path.read_text())
    }
    for path in [*folder.glob("package.json"), *folder.glob("runtime/package.json")]:
        manifest = json.loads(path.read_text())
        at = path.with_name("package-lock.json")
        lock = json.loads(at.read_text()) if at.exists() else {}
        names = {**manifest.get("dependencies", {}), **manifest.get("optionalDependencies", {})}
        packages = lock.get("packages", {})
        versions |= {packages.get(f"node_modules/{name}", {}).get("version", "") for name in names}
    return versions


SESSION = re.compile(
    r'(?:fit\(|SQLiteSession\(|(?:session|session_?[iI]d|thread|thread_id|conversation_id)"?[:=] ?)'
    r'"([\w-]+)"'
)


def test_each_example_has_its_own_session() -> None:
    """A second example with the same session would add a branch to the first one's session."""
    examples = [path.read_text("utf-8") for path in ADAPTERS.glob("*/example.*")]
    texts = [*TEXTS.values(), *examples]
    names = [name for text in texts for name in {*SESSION.findall(text)}]
    assert len(names) > 10
    assert len(names) == len(set(names)), sorted(names)
