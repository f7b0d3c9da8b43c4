"""The command `jac serve`; `jac start` only prints that it should be used."""

import sys
from pathlib import Path
from typing import Any

from jaclang.cli.command import Arg, CommandPriority
from jaclang.cli.registry import get_registry
from jaclang.jac0core.runtime import hookimpl

from contextrender_bridge.base.paths import ENTRY, app_dir
from contextrender_bridge.base.settings import current_settings, list_settings


class JacCommands:
    """The plugin that the `jac` command loads."""

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def get_persistent_memory(config: dict[str, Any]) -> Any:
        """Return the service's store for Jac's commands `db`, `dot` and `enter`, or None.

        The command is for this app if it runs in the app's folder, or if the setting `data` or
        `database` is set. Otherwise return None, so that Jac uses its own store.
        """
        folder = Path(config.get("base_path") or ".").resolve()
        is_named = any(
            row.name in ("data", "database") and row.source != "default" for row in list_settings()
        )
        if folder != app_dir() and not is_named:
            return None
        # The store's nodes are classes of the app, so Jac must be able to import the app.
        if str(app_dir()) not in sys.path:
            sys.path.append(str(app_dir()))
        from contextrender_bridge.runtime.jac_db import OperatorMemory
        from contextrender_bridge.store.opening import open_store

        return OperatorMemory(open_store(current_settings().data))

    @staticmethod
    @hookimpl  # type: ignore[untyped-decorator]
    def create_cmd() -> None:
        """Register the command `jac serve`, and `_refuse_start` to run before `jac start`."""
        registry = get_registry()

        # Without short="", `-h` would be short for `--host` instead of `--help`.
        @registry.command(  # type: ignore[untyped-decorator]
            name="serve",
            help="Serve ContextRender",
            group="deployment",
            priority=CommandPriority.PLUGIN,
            source="contextrender",
            args=[
                Arg.create("host", default="127.0.0.1", help="Address to listen on", short=""),
                Arg.create("port", typ=int, default=8000, help="Port to listen on", short="p"),
                Arg.create("data", default="", help="Folder for all data", short=""),
                Arg.create("workers", typ=int, default=0, help="Processes", short=""),
            ],
        )
        def serve(
            host: str = "127.0.0.1", port: int = 8000, data: str = "", workers: int = 0
        ) -> int:
            """Run `contextrender serve` with these options, and return its exit code."""
            from contextrender_bridge.cli import main

            # Pass on the options that are set.
            options = {"--data": data, "--workers": str(workers or "")}
            words = ["serve", "--host", host, "--port", str(port)]
            for option, value in options.items():
                words += [option, value] if value else []
            return main(words)

        registry.extend_command("start", pre_hook=_refuse_start, source="contextrender")


def _refuse_start(context: Any) -> None:
    """Cancel `jac start` for this app, and print which command to use instead.

    `jac start` would open the app to the network, with a default admin and open registration.
    """
    target = Path(str(context.get_arg("filename"))).resolve()
    if (target.parent / ENTRY).is_file() or target.is_relative_to(app_dir()):
        print("ContextRender has a hardened server of its own: use `jac serve`.", file=sys.stderr)
        context.set_data("cancel_execution", True)
        context.set_data("cancel_return_code", 2)
