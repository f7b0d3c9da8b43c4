"""Names and docstrings say what they mean (CONTRIBUTING.md, docs/glossary.md).

No name is a participle, pronoun or adverb alone, in the product and in its tests. A function's
docstring begins with a verb, and a class's with a noun. No two public classes, nodes or walkers
share a name.
"""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def words_in(text: str) -> frozenset[str]:
    return frozenset(text.split())


BARE = words_in(
    """
    told made known found given kept left held taken said asked done gone seen shown sent noted
    wanted named placed joined drawn meant lost counted got heard spent billed written answered
    stored staying waiting lacking missing differing chosen allowed tried used one ones
    those these others rest whole own ours theirs fresh there back again most least anew behind
    beyond among everything nothing what where why how until
    """
)
"""Words that are no name by themselves."""
NOT_A_VERB = words_in(
    """
    a an the this that these those it its they each every all both any some no none nothing not
    what who whose whoever how why when where while whether as of at in on to by for with without
    from into up after before since if one ones
    """
)
"""Words with which the docstring of a function may not begin."""
NOT_A_NOUN = words_in(
    "what those that these it its not as of whoever nothing whether how why where when"
)
"""Words with which the docstring of a class or a property may not begin."""

NO_TEST_BEGINS_WITH = words_in(
    "a an the it its they what whatever who whoever nobody nothing where"
)
"""Words with which the name of a test, after `test_`, may not begin."""
NOT_IN_A_TEST = words_in("told tells said says stands anew whoever nobody noted")
"""Words that no test's name has."""

JAC_HEAD = re.compile(r"^\s*(?:static |override )*(def|can|walker|node|edge|obj)\s+(\w+)(.*)")
JAC_STRING = re.compile(r'"""(?:(?!""").)*"""|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.S)


def files(*patterns: str) -> list[str]:
    command = ["git", "ls-files", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


@cache
def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def jac_files() -> list[str]:
    return [path for path in files("*.jac", "**/*.jac") if not path.startswith("tests/")]


def fault_of(docstring: str, refused: frozenset[str]) -> str:
    """Return what is wrong with the first word of a docstring; empty if nothing is."""
    words = docstring.split()
    first = re.sub(r"[^\w'’]", "", words[0]).lower() if words else ""
    is_wrong = first in refused or (refused is NOT_A_VERB and first.endswith(("'s", "’s")))
    return f"the docstring begins with {first!r}" if is_wrong else ""


def is_bare(name: str) -> bool:
    return name.strip("_").lower() in BARE


def names_in(node: ast.AST) -> list[str]:
    """Return the names that a node of a Python file declares: functions, classes, parameters,
    fields and variables."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Attribute(attr=name, ctx=ast.Store()) | ast.alias(asname=str(name)):
            return [name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return [name]
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
    return []


def bare_names(path: str) -> Iterator[str]:
    """Return the bare names of a Python file, each with its line."""
    for node in ast.walk(tree_of(path)):
        for name in filter(is_bare, names_in(node)):
            yield f"{path}:{getattr(node, 'lineno', 0)}: {name}: say what it is"


def docstring_findings(path: str) -> Iterator[str]:
    """Return the functions and classes of a Python file with a wrong docstring, and their lines."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.dump(d) for d in node.decorator_list)
            refused = NOT_A_NOUN if is_property else NOT_A_VERB
        elif isinstance(node, ast.ClassDef):
            refused = NOT_A_NOUN
        else:
            continue
        if fault := fault_of(ast.get_docstring(node) or "", refused):
            yield f"{path}:{node.lineno}: {node.name}: {fault}"


def jac_names(text: str) -> Iterator[tuple[int, str]]:
    """Return the names that a Jac file declares, each with its line."""
    code = JAC_STRING.sub(lambda string: re.sub(r"[^\n]", " ", string[0]), text)
    code = re.sub(r"#.*", "", code)
    patterns = (
        r"\b(?:def|can|walker|node|edge|obj)\s+(\w+)",
        r"(?:[(,]|\bhas|\bglob)\s*(\w+)\s*:(?!:)",
        r"(?m)^\s*(\w+)(?:: [^=;{}]+)?\s=\s",
        r"\bfor \(?(\w+)",
        r"\bglob (\w+)",
    )
    for pattern in patterns:
        for match in re.finditer(pattern, code):
            yield text.count("\n", 0, match.start(1)) + 1, match[1]


def jac_docstrings(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Return the line, kind and name of each documented declaration, and its docstring."""
    for match in re.finditer(r'"""((?:(?!""").)*)"""\n([^\n]*)', text, re.S):
        if head := JAC_HEAD.match(match[2]):
            yield text.count("\n", 0, match.start()) + 1, head[1], head[2], match[1]


def jac_findings(path: str) -> Iterator[str]:
    """Return the findings of a Jac file, each with its line."""
    text = (ROOT / path).read_text(encoding="utf-8")
    for line, name in sorted(set(jac_names(text))):
        if is_bare(name):
            yield f"{path}:{line}: {name}: say what it is"
    for line, kind, name, docstring in jac_docstrings(text):
        refused = NOT_A_VERB if kind in ("def", "can") else NOT_A_NOUN
        if fault := fault_of(docstring, refused):
            yield f"{path}:{line}: {name}: {fault}"


def class_names() -> Iterator[tuple[str, str]]:
    """Return each public class, node, edge, object and walker, with its file.

    The reply types of the client mirror those of the service, and so share their names.
    """
    for path in files("py_bridge/**.py"):
        if path.endswith("client/replies.py"):
            continue
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                yield node.name, path
    for path in jac_files():
        for match in re.finditer(
            r"(?m)^(?:walker|node|edge|obj) (\w+)", (ROOT / path).read_text(encoding="utf-8")
        ):
            yield match[1], path


def test_names_and_docstrings_are_plain() -> None:
    product = files("py_bridge/**.py", "adapters/**.py", "bench/**.py", "clients/**.py")
    findings = [f for path in (*product, *files("tests/**.py")) for f in bare_names(path)]
    for path in product:
        if not Path(path).name.startswith("test_"):
            findings += docstring_findings(path)
    findings += [finding for path in jac_files() for finding in jac_findings(path)]
    assert not findings, "\n".join(findings)


@pytest.mark.parametrize(
    "code",
    [
        "def told(): pass",
        "class Told: pass",
        "def read(told): pass",
        "def read(*, _told=1): pass",
        "def read(*told): pass",
        "def read(**told): pass",
        "read = lambda told: 1",
        "TOLD = 1",
        "self.told = 1",
        "class Reply:\n    told: int",
        "texts = [1 for told in texts]",
        "if told := 1: pass",
        "import json as told",
        "with read() as told: pass",
        "try: pass\nexcept ValueError as told: pass",
        "match text:\n    case [*told]: pass",
        "match text:\n    case {**told}: pass",
    ],
)
def test_bare_names_are_found_in_every_declaration(code: str) -> None:
    names = [name for node in ast.walk(ast.parse(code)) for name in names_in(node)]
    assert [name.strip("_").lower() for name in filter(is_bare, names)] == ["told"]


def test_no_two_classes_share_a_name() -> None:
    public = [(name, path) for name, path in class_names() if not name.startswith("_")]
    counts = Counter(name for name, _ in public)
    shared = sorted((name, path) for name, path in public if counts[name] > 1)
    assert not shared, shared


def names_of_tests() -> Iterator[tuple[str, list[str]]]:
    """Return each test, with its file, and the words of its name."""
    for path in files("tests/**.py", "adapters/**.py", "bench/**.py", "clients/**.py"):
        text = (ROOT / path).read_text(encoding="utf-8")
        for name in re.findall(r"(?m)^\s*(?:async )?def test_(\w+)", text):
            yield f"{path}: test_{name}", name.split("_")


def test_tests_are_named_by_the_behaviour_they_check() -> None:
    assert not [
        test
        for test, words in names_of_tests()
        if words[0] in NO_TEST_BEGINS_WITH or NOT_IN_A_TEST & set(words)
    ]
